package doctor

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

// soon is how long before its end a certificate is warned of.
const soon = 14 * 24 * time.Hour

// maxPEM is how large a file with certificates may be, in bytes.
const maxPEM = 4 << 20

const noHTTPS = "A host that serves over HTTP does not start with these settings."

// httpTLS looks at the files of TLS as a host would read them.
func httpTLS(st *config.HTTPSettings) []Result {
	_, loopback, err := front.CheckHTTPAddr(st.Addr)
	switch {
	case st.TLSCert == "" && st.TLSKey == "" && st.ClientCA != "":
		return []Result{{Subject: "http.clientCa", Status: Fail, Found: "clients are asked for certificates, which needs TLS", Why: noHTTPS, Fix: "Set http.tlsCert and http.tlsKey, or take http.clientCa out."}}
	case st.TLSCert == "" && st.TLSKey == "" && err == nil && st.Addr != "" && !loopback:
		return []Result{{
			Status: Warn, Found: "there is no TLS, and other machines reach the address", Why: "Tokens and all that clients and servers say can be read on the way.",
			Fix: "Set http.tlsCert and http.tlsKey, or put a proxy with TLS before it and listen on a loopback address.",
		}}
	case st.TLSCert == "" && st.TLSKey == "":
		return []Result{{Status: Skipped, Found: "there is no TLS"}}
	case st.TLSCert == "" || st.TLSKey == "":
		return []Result{{Status: Fail, Found: "only one of http.tlsCert and http.tlsKey is set", Why: noHTTPS, Fix: "Set both, or neither."}}
	}
	results := []Result{httpCertificate(st)}
	if mode, open := privateFile(st.TLSKey); open {
		results = append(results, Result{
			Subject: "http.tlsKey", Status: Warn, Found: fmt.Sprintf("%s can be read by others (mode %o)", st.TLSKey, mode), Why: "Who has the key can pass for this host.",
			Fix: "chmod 600 " + messages.ShellWord(st.TLSKey),
		})
	}
	if st.ClientCA != "" {
		results = append(results, clientAuthorities(st.ClientCA))
	}
	return results
}

// httpCertificate looks at a host's own certificate.
func httpCertificate(st *config.HTTPSettings) Result {
	r := Result{Subject: "http.tlsCert", Status: Fail, Why: noHTTPS}
	for _, f := range []struct{ setting, path string }{{"http.tlsCert", st.TLSCert}, {"http.tlsKey", st.TLSKey}} {
		if _, err := readBounded(f.path, maxPEM); err != nil {
			r.Subject, r.Found, r.Fix = f.setting, fmt.Sprintf("%s cannot be read: %v", f.path, cause(err)), "Check the path and the permissions of the file and its folders."
			return r
		}
	}
	pair, err := tls.LoadX509KeyPair(st.TLSCert, st.TLSKey)
	if err != nil {
		r.Found, r.Fix = fmt.Sprintf("%s and %s do not go together: %v", st.TLSCert, st.TLSKey, err), "Set the files of one certificate: PEM, the host's own certificate first, and the key that was made with it."
		return r
	}
	leaf := pair.Leaf
	if leaf == nil {
		if leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			r.Found, r.Fix = fmt.Sprintf("%s cannot be understood: %v", st.TLSCert, err), "Have the certificate made anew."
			return r
		}
	}
	r.Why = "Clients that check certificates, which is nearly all, do not connect."
	if why := outOfDate(leaf); why != "" {
		r.Found, r.Fix = st.TLSCert+" "+why, "Put a new certificate in its place, and restart the host."
		return r
	}
	for _, name := range st.Hosts {
		if h, _, err := net.SplitHostPort(name); err == nil {
			name = h
		}
		if leaf.VerifyHostname(name) != nil {
			r.Status, r.Found, r.Fix = Warn, fmt.Sprintf("%s is not for the name %s, which http.allowedHosts has", st.TLSCert, name), "Have the certificate made for that name too, or take the name out."
			return r
		}
	}
	if left := time.Until(leaf.NotAfter); left < soon {
		r.Status, r.Found, r.Fix = Warn, fmt.Sprintf("%s ends on %s", st.TLSCert, leaf.NotAfter.Format(time.DateOnly)), "Put a new certificate in its place, and restart the host."
		return r
	}
	return Result{Subject: r.Subject, Status: OK, Found: fmt.Sprintf("%s, good until %s", st.TLSCert, leaf.NotAfter.Format(time.DateOnly))}
}

// outOfDate says why a certificate is not good at this time; "": it is.
func outOfDate(c *x509.Certificate) string {
	switch {
	case time.Now().After(c.NotAfter):
		return "has expired on " + c.NotAfter.Format(time.DateOnly)
	case time.Now().Before(c.NotBefore):
		return "is not good before " + c.NotBefore.Format(time.DateOnly)
	}
	return ""
}

// clientAuthorities looks at the authorities whose certificates clients need.
func clientAuthorities(path string) Result {
	r := Result{Subject: "http.clientCa", Status: Fail, Why: noHTTPS}
	text, err := readBounded(path, maxPEM)
	if err != nil {
		r.Found, r.Fix = fmt.Sprintf("%s cannot be read: %v", path, cause(err)), "Check the path and the permissions of the file and its folders."
		return r
	}
	all, err := certificates(text)
	if err != nil {
		r.Found, r.Fix = fmt.Sprintf("%s: %v", path, err), "Set a PEM file with the certificates of the authorities."
		return r
	}
	good, why := 0, ""
	for _, c := range all {
		if w := outOfDate(c); w != "" {
			why = w
			continue
		}
		good++
	}
	if good == 0 {
		r.Found, r.Why, r.Fix = path+" "+why, "No client's certificate is taken, so that nobody gets in.", "Put the authority's new certificate in its place, and restart the host."
		return r
	}
	return Result{Subject: r.Subject, Status: OK, Found: fmt.Sprintf("%s, %s", path, count(good, "certificate"))}
}

func certificates(text []byte) (all []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(bytes.TrimSpace(text)); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	if all == nil {
		return nil, errors.New("there is no certificate in it")
	}
	return all, nil
}
