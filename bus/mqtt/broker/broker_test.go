package broker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"edged/bus/mqtt/broker"
	"edged/tests/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a broker and gives its port; take may be nil.
func serve(t testing.TB, o broker.Options, take func(topic string, payload []byte, qos byte, retain bool) error) (*broker.Broker, string) {
	t.Helper()
	return serveWith(t, o, func(b *broker.Broker) {
		if take != nil {
			b.Receive(take)
		}
	})
}

func serveWith(t testing.TB, o broker.Options, set func(b *broker.Broker)) (*broker.Broker, string) {
	t.Helper()
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	ctx, cancel := context.WithCancel(context.Background())
	b, err := broker.Listen(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	set(b)
	done := make(chan error, 1)
	go func() { done <- b.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: got %v, want nil", err)
		}
	})
	_, port, _ := net.SplitHostPort(b.Addr())
	return b, port
}

// tool runs one of mosquitto's clients and gives what it printed; one that is
// not let in tries again for ever, so it has half a minute.
func tool(t testing.TB, name, port string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(peer.Tool(t, "timeout"), append([]string{"30", peer.Tool(t, name), "-h", "127.0.0.1", "-p", port}, args...)...).CombinedOutput()
	return string(out), err
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	peer.Eventually(t, 2*time.Second, what, ok)
}

// sub starts mosquitto_sub and gives what it has printed so far.
func sub(t testing.TB, port string, args ...string) *peer.Output {
	t.Helper()
	out := &peer.Output{}
	peer.Sub(t, out, port, append([]string{"-F", "%t %p %r %q"}, args...)...)
	return out
}

func TestQoSAndRetained(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var took []string
	b, port := serve(t, broker.Options{}, func(topic string, p []byte, qos byte, retain bool) error {
		mu.Lock()
		defer mu.Unlock()
		took = append(took, fmt.Sprintf("%s %s %d %v", topic, p, qos, retain))
		return nil
	})
	out := sub(t, port, "-t", "a/#", "-q", "2")
	for _, qos := range []string{"0", "1", "2"} {
		peer.Pub(t, port, "-t", "a/"+qos, "-m", "hi", "-q", qos)
		eventually(t, "client to client, QoS "+qos, func() bool { return strings.Contains(out.String(), "a/"+qos+" hi 0 "+qos) })
	}
	peer.Pub(t, port, "-t", "a/r", "-m", "kept", "-r")
	if err := b.Publish("a/in", []byte("from inside"), 1, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "from inside", func() bool { return strings.Contains(out.String(), "a/in from inside 0 1") })
	late := sub(t, port, "-t", "a/#")
	eventually(t, "retained", func() bool {
		return strings.Contains(late.String(), "a/r kept 1 0") && strings.Contains(late.String(), "a/in from inside 1 0")
	})
	if err := b.Publish("a/in", nil, 0, true); err != nil {
		t.Fatal(err)
	}
	later := sub(t, port, "-t", "a/#")
	eventually(t, "the other one", func() bool { return strings.Contains(later.String(), "a/r kept 1 0") })
	if strings.Contains(later.String(), "from inside") {
		t.Error("a forgotten message came")
	}
	mu.Lock()
	defer mu.Unlock()
	if got, want := strings.Join(took, "; "), "a/0 hi 0 false; a/1 hi 1 false; a/2 hi 2 false; a/r kept 0 true"; got != want {
		t.Errorf("taken: got %q, want %q", got, want)
	}
}

// What is not taken is not acknowledged and reaches nobody.
func TestRefusedMessage(t *testing.T) {
	t.Parallel()
	_, port := serve(t, broker.Options{}, func(topic string, _ []byte, _ byte, _ bool) error {
		if topic == "no" {
			return errors.New("not now")
		}
		return nil
	})
	out := sub(t, port, "-t", "#")
	got, _ := exec.Command(peer.Tool(t, "timeout"), "1", peer.Tool(t, "mosquitto_pub"), "-h", "127.0.0.1", "-p", port, "-t", "no", "-m", "x", "-q", "1", "-d").CombinedOutput()
	if strings.Contains(string(got), "PUBACK") {
		t.Errorf("a refused message was acknowledged: %s", got)
	}
	peer.Pub(t, port, "-t", "yes", "-m", "x", "-q", "1")
	eventually(t, "the next one", func() bool { return strings.Contains(out.String(), "yes x") })
	if strings.Contains(out.String(), "no x") {
		t.Error("a refused message was passed on")
	}
}

// A client with a session that was away gets everything, in order.
func TestSession(t *testing.T) {
	t.Parallel()
	b, port := serve(t, broker.Options{}, nil)
	if out, err := tool(t, "mosquitto_sub", port, "-t", "n", "-q", "1", "-i", "me", "-c", "-E"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var want strings.Builder
	for i := range 500 {
		if err := b.Publish("n", fmt.Append(nil, i), 1, false); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&want, i)
	}
	got, err := tool(t, "mosquitto_sub", port, "-t", "n", "-q", "1", "-i", "me", "-c", "-C", "500", "-W", "10")
	if err != nil || got != want.String() {
		t.Errorf("got %q (%v)", got, err)
	}
}

// Who subscribes gets what comes from then on, also of a topic that nobody
// wanted before; who is away with a session still counts.
func TestQuiet(t *testing.T) {
	t.Parallel()
	var took atomic.Int64
	b, port := serve(t, broker.Options{}, func(string, []byte, byte, bool) error { took.Add(1); return nil })
	quiet := func(when, topic string, want bool) {
		t.Helper()
		if got := b.Quiet(topic); got != want {
			t.Errorf("%s: Quiet(%q) is %v", when, topic, got)
		}
	}
	for i := range 2 { // the second time it is known
		peer.Pub(t, port, "-t", "x/1", "-m", "unheard", "-q", fmt.Sprint(i+1))
	}
	if took.Load() != 2 {
		t.Errorf("taken in: %d of 2", took.Load())
	}
	quiet("before", "x/1", true)
	t.Run("while somebody listens", func(t *testing.T) {
		out := sub(t, port, "-t", "x/+")
		peer.Pub(t, port, "-t", "x/1", "-m", "outside")
		if err := b.Publish("x/1", []byte("inside"), 0, false); err != nil {
			t.Fatal(err)
		}
		eventually(t, "both came", func() bool {
			return strings.Contains(out.String(), "x/1 outside") && strings.Contains(out.String(), "x/1 inside")
		})
		quiet("now", "x/1", false)
		quiet("now", "x", true)
		quiet("now", "x/1/2", true)
		if strings.Contains(out.String(), "unheard") {
			t.Error("a message from before came")
		}
	})
	eventually(t, "quiet again", func() bool { return b.Quiet("x/1") })
	if out, err := tool(t, "mosquitto_sub", port, "-t", "x/#", "-q", "1", "-i", "me", "-c", "-E"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	quiet("for one who is away", "x/1", false)
	quiet("for one who is away", "x", false)
	peer.Pub(t, port, "-t", "x/1", "-m", "kept for me", "-q", "1")
	if got, err := tool(t, "mosquitto_sub", port, "-t", "x/#", "-q", "1", "-i", "me", "-c", "-C", "1", "-W", "10"); err != nil || got != "kept for me\n" {
		t.Errorf("got %q (%v)", got, err)
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passwords")
	if out, err := exec.Command(peer.Tool(t, "mosquitto_passwd"), "-b", "-c", file, "hashed", "secret").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_ = os.Chmod(file, 0o600)
	pw, err := broker.Passwords(file)
	if err != nil {
		t.Fatal(err)
	}
	b, port := serve(t, broker.Options{Users: []broker.User{
		{Name: "plain", Password: "pw", Read: []string{"home/+/t"}, Write: []string{"home/#"}},
		{Name: "hashed", Password: pw["hashed"], Read: []string{"#"}, Write: []string{"out/x"}},
	}}, nil)
	for _, args := range [][]string{
		{}, {"-u", "plain"}, {"-u", "plain", "-P", "wrong"}, {"-u", "hashed", "-P", "wrong"}, {"-u", "nobody", "-P", "x"}, {"-u", "hashed", "-P", pw["hashed"]},
	} {
		if out, err := tool(t, "mosquitto_pub", port, append(args, "-t", "home/x", "-m", "1")...); err == nil {
			t.Errorf("%v was let in: %s", args, out)
		}
	}
	if got := b.Stats().Refused; got != 6 {
		t.Errorf("got %d refused, want 6", got)
	}
	all := sub(t, port, "-u", "hashed", "-P", "secret", "-t", "#")
	some := sub(t, port, "-u", "plain", "-P", "pw", "-t", "home/+/t")
	if out, _ := tool(t, "mosquitto_sub", port, "-u", "plain", "-P", "pw", "-t", "home/#", "-W", "1", "-d"); !strings.Contains(out, "128") && !strings.Contains(out, "denied") && !strings.Contains(out, "rejected") {
		t.Errorf("a filter that is wider than the user's: %s", out)
	}
	peer.Pub(t, port, "-u", "hashed", "-P", "secret", "-t", "home/a/t", "-m", "forged", "-q", "0")
	peer.Pub(t, port, "-u", "plain", "-P", "pw", "-t", "home/a/t", "-m", "21", "-q", "1")
	peer.Pub(t, port, "-u", "plain", "-P", "pw", "-t", "home/secret", "-m", "22", "-q", "1")
	eventually(t, "both", func() bool { return strings.Contains(all.String(), "home/secret 22") })
	eventually(t, "one", func() bool { return strings.Contains(some.String(), "home/a/t 21") })
	if strings.Contains(some.String(), "secret") || strings.Contains(all.String()+some.String(), "forged") {
		t.Errorf("got %s\n%s", some, all)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	user := []broker.User{{Name: "a", Password: "b"}}
	for _, tc := range []struct {
		listen string
		users  []broker.User
		want   string
	}{
		{"127.0.0.1:1", nil, ""}, {"127.0.0.2:1", nil, ""}, {"[::1]:1", nil, ""}, {"localhost:1", nil, ""},
		{"0.0.0.0:1", nil, "set mqtt.users"}, {":1", nil, "set mqtt.users"}, {"192.0.2.7:1", nil, "set mqtt.users"}, {"[::]:1", nil, "set mqtt.users"},
		{"0.0.0.0:1", user, ""}, {"nonsense", nil, "not host:port"},
	} {
		err := broker.Check(ctx, broker.Options{Listen: tc.listen, Users: tc.users})
		if got := fmt.Sprint(err); tc.want == "" && err != nil || !strings.Contains(got, tc.want) {
			t.Errorf("%s, %d users: got %v, want %q", tc.listen, len(tc.users), err, tc.want)
		}
	}
	if _, err := broker.Listen(ctx, broker.Options{Listen: "0.0.0.0:0"}); err == nil {
		t.Error("anonymous beyond loopback was allowed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = broker.Listen(ctx, broker.Options{Listen: l.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "mqtt.listen") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("port in use: got %v", err)
	}
}

func TestRefusedUsers(t *testing.T) {
	t.Parallel()
	for want, u := range map[string][]broker.User{
		"no password":      {{Name: "a"}},
		"is not a name":    {{Password: "a"}},
		"is there twice":   {{Name: "a", Password: "x"}, {Name: "a", Password: "y"}},
		"not a topic":      {{Name: "a", Password: "x", Read: []string{"a/#/b"}}},
		"must be $7$":      {{Name: "a", Password: "$6$x$y"}},
		"iterations":       {{Name: "a", Password: "$7$zero$x$y"}},
		"not base64":       {{Name: "a", Password: "$7$101$eA==$"}},
		"salt":             {{Name: "a", Password: "$7$101$?$eA=="}},
		"not a topic filt": {{Name: "a", Password: "x", Write: []string{""}}},
	} {
		if _, err := broker.Listen(t.Context(), broker.Options{Listen: "127.0.0.1:0", Users: u}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "p")
	for text, want := range map[string]string{"a": "want name:password", "a:b": ""} {
		_ = os.WriteFile(file, []byte(text), 0o600)
		if _, err := broker.Passwords(file); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	_ = os.Chmod(file, 0o640)
	if _, err := broker.Passwords(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: got %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pk, _ := x509.MarshalPKCS8PrivateKey(key)
	crt, pem8 := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	_ = os.WriteFile(crt, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	_ = os.WriteFile(pem8, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk}), 0o600)
	took := make(chan string, 4)
	_, port := serve(t, broker.Options{TLS: broker.TLS{Cert: crt, Key: pem8, ClientCA: crt}}, func(topic string, p []byte, _ byte, _ bool) error {
		took <- topic + " " + string(p)
		return nil
	})
	peer.Pub(t, port, "--cafile", crt, "--cert", crt, "--key", pem8, "-t", "a", "-m", "sealed", "-q", "1")
	if got := <-took; got != "a sealed" {
		t.Errorf("got %q", got)
	}
	for _, args := range [][]string{{"--cafile", crt}, {}} {
		if out, err := tool(t, "mosquitto_pub", port, append(args, "-t", "a", "-m", "x", "-q", "1")...); err == nil {
			t.Errorf("%v was let in: %s", args, out)
		}
	}
	_ = os.Chmod(pem8, 0o644)
	if _, err := broker.Listen(t.Context(), broker.Options{Listen: "127.0.0.1:0", TLS: broker.TLS{Cert: crt, Key: pem8}}); err == nil {
		t.Error("a key that others may read was taken")
	}
	if _, err := broker.Listen(t.Context(), broker.Options{Listen: "127.0.0.1:0", TLS: broker.TLS{Cert: crt}}); err == nil {
		t.Error("a certificate without a key was taken")
	}
}

// Garbage ends its own connection and nothing else.
func TestGarbage(t *testing.T) {
	t.Parallel()
	_, port := serve(t, broker.Options{MaxPacket: 4096, Clients: 8}, nil)
	connect := []byte{0x10, 14, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, 2, 'i', 'd'}
	for name, p := range map[string][]byte{
		"zeros":        make([]byte, 64),
		"huge connect": {0x10, 0xff, 0xff, 0xff, 0x7f},
		"long length":  {0x10, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"huge publish": append(connect[:16:16], 0x30, 0xff, 0xff, 0xff, 0x7f),
		"short topic":  append(connect[:16:16], 0x30, 2, 0, 9),
		"qos 3":        append(connect[:16:16], 0x36, 5, 0, 1, 'a', 0, 1),
		"bad utf8":     append(connect[:16:16], 0x30, 3, 0, 1, 0xff),
		"type 0":       append(connect[:16:16], 0, 0),
		"http":         []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(p)
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays", name)
		}
		c.Close()
	}
	peer.Pub(t, port, "-t", "a", "-m", "still there", "-q", "1")
}

func TestTooManyClients(t *testing.T) {
	t.Parallel()
	_, port := serve(t, broker.Options{Clients: 2}, nil)
	sub(t, port, "-t", "a")
	sub(t, port, "-t", "a")
	if out, err := tool(t, "mosquitto_pub", port, "-t", "a", "-m", "x"); err == nil {
		t.Errorf("a third client was let in: %s", out)
	}
}

func ExampleListen() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b, err := broker.Listen(ctx, broker.Options{Listen: "127.0.0.1:0"}) // free port; 127.0.0.1:1883 if empty
	if err != nil {
		fmt.Println(err)
		return
	}
	b.Receive(func(topic string, payload []byte, qos byte, retain bool) error {
		return nil // a client published; nil lets it have its acknowledgement
	})
	done := make(chan error)
	go func() { done <- b.Serve(ctx) }()
	fmt.Println(b.Publish("robot/status", []byte("online"), 1, true))
	cancel()
	fmt.Println(<-done)
	// Output:
	// <nil>
	// <nil>
}
