package mqtt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/eclipse/paho.mqtt.golang/packets"
)

// TLS names the files for ssl:// and wss://, all PEM.
type TLS struct {
	CA   string // who signs the broker's certificate; the system's list if empty
	Cert string // our own certificate, if the broker asks for one
	Key  string // readable by its owner only
	Name string // the broker's name in its certificate, if it isn't the host in the URL
}

// address is a checked broker URL.
type address struct {
	url    *url.URL
	secure bool
	web    bool
	tls    *tls.Config
}

func (o *Options) address() (address, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return address{}, fmt.Errorf("mqtt: mqtt.url: %w", err)
	}
	a := address{url: u}
	port := "1883"
	switch u.Scheme {
	case "tcp", "mqtt":
	case "ssl", "tls", "mqtts":
		a.secure, port = true, "8883"
	case "ws":
		a.web, port = true, "80"
	case "wss":
		a.web, a.secure, port = true, true, "443"
	default:
		return a, fmt.Errorf("mqtt: mqtt.url %q: want tcp, ssl, ws or wss://host:port", u.Redacted())
	}
	if u.Hostname() == "" {
		return a, fmt.Errorf("mqtt: mqtt.url %q names no host", u.Redacted())
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	if u.User != nil {
		o.Username = u.User.Username()
		if p, ok := u.User.Password(); ok {
			o.Password = p
		}
		u.User = nil
	}
	if !a.secure && !o.Insecure && !onLoopback(u.Hostname()) {
		return a, fmt.Errorf("mqtt: mqtt.url %q is not encrypted and not on this machine: "+
			"use ssl:// or wss://, or set mqtt.insecure", u)
	}
	if a.secure {
		a.tls, err = o.TLS.config(u.Hostname())
	}
	return a, err
}

func onLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (t TLS) config(host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if t.Name != "" {
		c.ServerName = t.Name
	}
	if t.CA != "" {
		if err := mode(t.CA, 0o022, "change"); err != nil {
			return nil, err
		}
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("mqtt: mqtt.tls.ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("mqtt: mqtt.tls.ca: %s holds no certificate", t.CA)
		}
	}
	if t.Cert == "" && t.Key == "" {
		return c, nil
	}
	if err := mode(t.Key, 0o077, "read"); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("mqtt: mqtt.tls.cert: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// mode refuses a file that others may read, or change.
func mode(path string, bits fs.FileMode, what string) error {
	st, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("mqtt: %w", err)
	}
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		bits &= 0o037 // systemd makes them readable by a group, in a folder that nobody else gets into
	}
	if p := st.Mode().Perm(); p&bits != 0 {
		return fmt.Errorf("mqtt: %s: others may %s it (mode %04o): chmod 600 it", path, what, p)
	}
	return nil
}

func (o *Options) secret() error {
	if o.PasswordFile == "" {
		return nil
	}
	if err := mode(o.PasswordFile, 0o077, "read"); err != nil {
		return err
	}
	b, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return fmt.Errorf("mqtt: mqtt.password_file: %w", err)
	}
	o.Password = strings.TrimRight(string(b), "\r\n")
	return nil
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil || h == "" {
		return "robot"
	}
	return h
}

func (a address) dial(ctx context.Context, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case a.web:
		return paho.NewWebsocket(a.url.String(), a.tls, timeout, nil, nil)
	case a.secure:
		return (&tls.Dialer{Config: a.tls}).DialContext(ctx, "tcp", a.url.Host)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", a.url.Host)
}

// words says what went wrong with a connection, and what to try.
func words(err error, o Options) string {
	var (
		invalid x509.CertificateInvalidError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
	)
	switch {
	case errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(err, packets.ErrorRefusedNotAuthorised):
		if o.Username == "" {
			return "the broker wants a user name and password: set mqtt.username and mqtt.password_file"
		}
		return fmt.Sprintf("the broker refused user %q: wrong user name or password (mqtt.username, mqtt.password_file)", o.Username)
	case errors.Is(err, packets.ErrorRefusedIDRejected):
		return fmt.Sprintf("the broker refused client id %q: set another mqtt.client_id", o.ClientID)
	case errors.Is(err, packets.ErrorRefusedServerUnavailable):
		return "the broker is not available"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the broker's certificate is not valid now (it ends %s): renew it, or set the clock",
			invalid.Cert.NotAfter.UTC().Format(time.DateOnly))
	case errors.As(err, &unknown):
		return "the broker's certificate is signed by someone we don't know: set mqtt.tls.ca"
	case errors.As(err, &host):
		return fmt.Sprintf("the broker's certificate is for another name: %v (mqtt.tls.name)", host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "no broker is listening there"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "the broker does not answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, errBye):
		return "the broker closed the connection"
	}
	return err.Error()
}

// byPeer reports that the other end closed the connection.
func byPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, errBye)
}

// noStore keeps Paho from storing: the bridge does, durably.
type noStore struct{}

func (noStore) Open()                             {}
func (noStore) Put(string, packets.ControlPacket) {}
func (noStore) Get(string) packets.ControlPacket  { return nil }
func (noStore) All() []string                     { return nil }
func (noStore) Del(string)                        {}
func (noStore) Close()                            {}
func (noStore) Reset()                            {}
