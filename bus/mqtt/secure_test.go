package mqtt_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edged/bus"
	"edged/bus/mqtt"
	"edged/tests/peer"
)

// authority signs certificates for a test and writes them to files.
type authority struct {
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir}
	a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, _ = x509.ParseCertificate(der)
	a.write(t, "ca.crt", "CERTIFICATE", der)
	return a
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue writes <name>.crt and <name>.key.
func (a *authority) issue(t *testing.T, name string, until time.Time) {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".crt", "CERTIFICATE", der)
	k, _ := x509.MarshalPKCS8PrivateKey(key)
	a.write(t, name+".key", "PRIVATE KEY", k)
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// (h) a wrong password: said in words, and no busy loop. The right one works.
func TestPassword(t *testing.T) {
	t.Parallel()
	m := peer.NewMosquitto(t, "listener %PORT% 127.0.0.1\nallow_anonymous false\npassword_file %DIR%/passwords\n")
	if out, err := exec.Command(peer.Tool(t, "mosquitto_passwd"), "-b", "-c", filepath.Join(m.Dir, "passwords"), "robot", "right").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.Start()
	file := filepath.Join(t.TempDir(), "password")
	for _, tc := range []struct{ name, user, pass, want string }{
		{"wrong", "robot", "wrong", `refused user "robot": wrong user name or password`},
		{"none", "", "", "set mqtt.username"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRobot(t, mqtt.Options{URL: m.URL(), ClientID: "pw", Username: tc.user, Password: tc.pass})
			down := r.hear(t, "edged/mqtt/down")
			begin := time.Now()
			peer.Eventually(t, 10*time.Second, "two attempts", func() bool { return r.br.Stats().Attempts >= 3 })
			if time.Since(begin) < 500*time.Millisecond {
				t.Errorf("got 3 attempts in %v: a busy loop", time.Since(begin))
			}
			if e := down.wait(t, 1); len(e) != 1 || !strings.Contains(fmt.Sprint(e[0].Payload()), tc.want) {
				t.Errorf("got %v, want one event with %q", e, tc.want)
			}
		})
	}
	if err := os.WriteFile(file, []byte("right\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := mqtt.Options{URL: m.URL(), ClientID: "pw", Username: "robot", PasswordFile: file}
	if _, err := mqtt.New(bus.New(bus.Options{}), o); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a password file that others may read: got %v", err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	newRobot(t, o).connected(t)
}

// (h) certificates: ours and the broker's are checked, an expired one is named.
func TestCertificates(t *testing.T) {
	t.Parallel()
	const conf = "listener %PORT% 127.0.0.1\nallow_anonymous true\ncafile %DIR%/ca.crt\ncertfile %DIR%/NAME.crt\n" +
		"keyfile %DIR%/NAME.key\nrequire_certificate true\n"
	good := peer.NewMosquitto(t, strings.ReplaceAll(conf, "NAME", "good"))
	old := peer.NewMosquitto(t, strings.ReplaceAll(conf, "NAME", "old"))
	a := newAuthority(t, good.Dir)
	a.issue(t, "good", time.Now().Add(time.Hour))
	a.issue(t, "robot", time.Now().Add(time.Hour))
	good.Start()
	b := newAuthority(t, old.Dir)
	b.issue(t, "old", time.Now().Add(-time.Hour))
	old.Start()

	opt := func(m *peer.Mosquitto, a *authority) mqtt.Options {
		return mqtt.Options{URL: "ssl://127.0.0.1:" + m.Port, ClientID: "tls",
			TLS: mqtt.TLS{CA: a.file("ca.crt")}, Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "#", QoS: 1}}}}
	}
	o := opt(good, a)
	o.TLS.Cert, o.TLS.Key = a.file("robot.crt"), a.file("robot.key")
	newRobot(t, o).connected(t)

	for name, tc := range map[string]struct {
		o    mqtt.Options
		want string
	}{
		"expired":   {opt(old, b), "certificate is not valid now"},
		"unknown":   {opt(good, b), "signed by someone we don't know"},
		"none sent": {opt(good, a), "certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRobot(t, tc.o)
			down := r.hear(t, "edged/mqtt/down")
			e := down.wait(t, 1)[0]
			if got := fmt.Sprint(e.Payload()); !strings.Contains(got, tc.want) && !strings.Contains(got, "closed the connection") {
				t.Errorf("got %s, want %q", got, tc.want)
			}
		})
	}
}

func TestWebsocket(t *testing.T) {
	t.Parallel()
	// Some versions don't start without a plain listener.
	m := startMosquitto(t, "listener "+peer.FreePort(t)+" 127.0.0.1\nlistener %PORT% 127.0.0.1\nprotocol websockets\nallow_anonymous true\n")
	r := newRobot(t, mqtt.Options{URL: "ws://127.0.0.1:" + m.Port, ClientID: "ws", Mapping: mqtt.Mapping{
		Subscribe: []mqtt.Route{{Filter: "a/#", QoS: 1}}, Publish: []mqtt.Route{{Filter: "b/#", QoS: 1, Prefix: "a/", Strip: "b/"}}}}).connected(t)
	other := newRobot(t, mqtt.Options{URL: "ws://127.0.0.1:" + m.Port, ClientID: "ws2",
		Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "a/#", QoS: 1}}}}).connected(t)
	in := other.hear(t, "a/x")
	r.say(t, "b/x", "hello")
	if got := in.wait(t, 1)[0].Payload(); got != "hello" {
		t.Errorf("got %v, want hello", got)
	}
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loose := filepath.Join(dir, "key")
	if err := os.WriteFile(loose, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]mqtt.Options{
		"set mqtt.insecure":        {URL: "tcp://broker.example:1883"},
		"set mqtt.insecure or":     {URL: "ws://192.0.2.1"},
		"want tcp, ssl, ws or wss": {URL: "http://127.0.0.1"},
		"names no host":            {URL: "tcp://"},
		"chmod 600":                {URL: "ssl://127.0.0.1", TLS: mqtt.TLS{Cert: "x", Key: loose}},
		"no such file":             {URL: "ssl://127.0.0.1", TLS: mqtt.TLS{CA: dir + "/none"}},
		"unknown codec \"yaml\"":   {URL: "tcp://127.0.0.1", Mapping: mqtt.Mapping{Publish: []mqtt.Route{{Filter: "a", Codec: "yaml"}}}},
		"use 0, 1 or 2":            {URL: "tcp://127.0.0.1", Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "a", QoS: 3}}}},
		"bad topic filter":         {URL: "tcp://127.0.0.1", Mapping: mqtt.Mapping{Subscribe: []mqtt.Route{{Filter: "a#"}}}},
		"bad topic":                {URL: "tcp://127.0.0.1", Mapping: mqtt.Mapping{OutPrefix: "+"}},
		"drops the oldest or":      {URL: "tcp://127.0.0.1", Overflow: bus.Latest},
	} {
		_, err := mqtt.New(bus.New(bus.Options{}), o)
		if want = strings.TrimSuffix(want, " or"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", o.URL, err, want)
		}
	}
	b := bus.New(bus.Options{})
	if _, err := mqtt.New(b, mqtt.Options{URL: "tcp://broker.example", Insecure: true}); err != nil {
		t.Errorf("with insecure: %v", err)
	}
	_ = b.Close(context.Background())
}

// What systemd hands over is readable by a group; elsewhere that is refused.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte("right\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o440); err != nil {
		t.Fatal(err)
	}
	o := mqtt.Options{URL: "tcp://127.0.0.1:1", ClientID: "pw", Username: "robot", PasswordFile: file}
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	if _, err := mqtt.New(b, o); err == nil {
		t.Error("a group's file was taken")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	br, err := mqtt.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	br.Close()
}
