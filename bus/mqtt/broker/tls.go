package broker

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLS names the files for encrypted connections, all PEM. The zero value means
// plain TCP. The key must be readable by its owner only.
type TLS struct {
	Cert     string // certificate chain
	Key      string
	ClientCA string // if set, clients must show a certificate signed by it
}

func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("broker: TLS needs both mqtt.tls.cert and mqtt.tls.key")
	}
	if err := private(t.Key); err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("broker: mqtt.tls.cert: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("broker: mqtt.tls.client_ca: %w", err)
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("broker: mqtt.tls.client_ca: %s holds no certificate", t.ClientCA)
	}
	return c, nil
}
