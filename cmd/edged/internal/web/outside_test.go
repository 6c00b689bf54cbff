package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certified writes a certificate for 127.0.0.1 and its key.
func certified(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pool = x509.NewCertPool()
	text, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(text)
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret), pool
}

// What others reach has TLS, and not even reading is free.
func TestOutside(t *testing.T) {
	if _, err := Listen(Options{Listen: "0.0.0.0:0", Token: secret}); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Fatalf("a bind for all without TLS: %v", err)
	}
	cert, key, pool := certified(t)
	s := open(t, func(o *Options) {
		o.Listen, o.Cert, o.Key, o.Names = "0.0.0.0:0", cert, key, []string{"rover.local"}
	})
	s.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	_, port, _ := net.SplitHostPort(s.Addr().String())
	s.at = "https://127.0.0.1:" + port
	if got, want := s.URL(), "https://rover.local:"+port; got != want {
		t.Errorf("its address is %s, want %s", got, want)
	}
	for _, x := range []struct {
		name, method, path string
		headers            []string
		want               int
	}{
		{"reading", "GET", "/api/v1/echo", nil, 403},
		{"the page", "GET", "/", nil, 403},
		{"its files", "GET", "/page.js", nil, 403},
		{"counting", "GET", "/metrics", nil, 403},
		{"events", "GET", "/api/v1/events", nil, 403},
		{"health", "GET", "/healthz", nil, 200},
		{"reading with the token", "GET", "/api/v1/echo", []string{bearer}, 200},
		{"the page with the token", "GET", "/", []string{bearer}, 200},
		{"under its name", "GET", "/api/v1/echo", []string{bearer, "Host: rover.local"}, 200},
		{"under its address", "GET", "/api/v1/echo", []string{bearer, "Host: 192.168.7.9"}, 200},
		{"under a strange name", "GET", "/api/v1/echo", []string{bearer, "Host: evil.example"}, 403},
	} {
		if a, body := s.do(x.method, x.path, "", x.headers...); a.StatusCode != x.want {
			t.Errorf("%s: got %d %s, want %d", x.name, a.StatusCode, body, x.want)
		}
	}
	a, _ := s.do("GET", "/?token="+secret, "")
	if c := a.Cookies(); len(c) != 1 || !c[0].Secure || !c[0].HttpOnly {
		t.Errorf("cookies %v, want one that is sent over TLS only", c)
	}
	s.client.Transport.(*http.Transport).TLSClientConfig = nil
	s.client.CloseIdleConnections()
	s.at = "http://127.0.0.1:" + port
	if a, body := s.do("GET", "/api/v1/echo", "", bearer); a.StatusCode != 400 {
		t.Errorf("without TLS: %d %s", a.StatusCode, body)
	}
}

// A token is made once, and is its owner's alone.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data", "page.token")
	token, fresh, err := Token(file)
	if err != nil || !fresh || len(token) < 20 {
		t.Fatal(token, fresh, err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Dir(file)); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder is %v, %v", st.Mode(), err)
	}
	if again, fresh, err := Token(file); again != token || fresh || err != nil {
		t.Errorf("the second time: %q, %v, %v", again, fresh, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	other, fresh, err := Token(file)
	if err != nil || !fresh || other == token {
		t.Errorf("what others could read is still the token: %v, %v", fresh, err)
	}
	if err := os.WriteFile(file, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if short, fresh, err := Token(file); err != nil || !fresh || short == "x" {
		t.Errorf("a token of one letter was taken: %v", err)
	}
	if err := os.WriteFile(file, []byte("12345678901234567890\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if own, fresh, err := Token(file); err != nil || fresh || own != "12345678901234567890" {
		t.Errorf("a token of one's own is %q, %v, %v", own, fresh, err)
	}
	if left, _ := filepath.Glob(file + ".*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// Where no token can be kept there is none, and it is said.
func TestNoPlaceForAToken(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(at("file"), nil, 0o600), os.Symlink(at("nowhere"), at("link")),
		os.Mkdir(at("folder"), 0o700), os.Mkdir(at("open"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"in a file": "file/token", "in a link to nothing": "link/token", "a folder": "folder", "a folder for all": "open", "a name too long": strings.Repeat("x", 250),
	} {
		if token, fresh, err := Token(at(file)); err == nil || token != "" || fresh || !strings.HasPrefix(err.Error(), "page: token: ") {
			t.Errorf("%s: %q, %v, %v", name, token, fresh, err)
		}
	}
	for _, file := range []string{"file/token", "folder"} {
		if token, err := OldToken(at(file)); err == nil || token != "" {
			t.Errorf("%s: %q, %v", file, token, err)
		}
	}
	if left, _ := filepath.Glob(at("open.*")); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}
