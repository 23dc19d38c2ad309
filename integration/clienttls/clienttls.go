// Package clienttls makes of the "tls" of a server's entry what connections need.
package clienttls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/metamcp/metamcp/messages"
)

// Use has connections with cfg trust the authorities of spec's "tls", beside those of
// the system, and show its certificate. The files are read now; the error names the
// one that cannot be used. Without a "tls" nothing is changed.
func Use(cfg *tls.Config, spec *messages.ServerSpec) error {
	if spec.TLS == nil {
		return nil
	}
	wrong := func(path string, err error) error {
		return &messages.Error{
			Code: messages.CodeConfiguration, Server: spec.Name, Cause: err,
			Message: fmt.Sprintf("the tls of server %q cannot be used: %s: %v", spec.Name, path, err),
			Hint:    "Name files with PEM blocks that metamcp may read, in \"tls\" of the server.",
		}
	}
	if path := spec.TLS.CA; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return wrong(path, errors.Unwrap(err))
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // there is none
		}
		if !pool.AppendCertsFromPEM(text) {
			return wrong(path, errors.New("there is no certificate in it"))
		}
		cfg.RootCAs = pool
	}
	if spec.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(spec.TLS.Cert, spec.TLS.Key)
		if err != nil {
			return wrong(spec.TLS.Cert+" with "+spec.TLS.Key, err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return nil
}
