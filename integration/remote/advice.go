package remote

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// refusal is [refusal] with what the user can do about it.
func (k *Link) refusal(resp *http.Response, body []byte) *Error {
	f := refusal(resp, body)
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		f.Advice = k.credentialAdvice(resp.StatusCode)
	case wantsTLS(resp.StatusCode, body):
		f.Said = "it speaks HTTPS at this port, and not plain HTTP"
		f.Advice = fmt.Sprintf("Write https:// into the url of server %q.", k.spec.Name)
	}
	return f
}

// credentialAdvice names the headers that a server did not take, or how to give
// it some.
func (k *Link) credentialAdvice(status int) string {
	const useless = " Repeating the call does not help."
	names := slices.Sorted(maps.Keys(k.spec.Headers))
	if at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, "Authorization") }); at >= 0 {
		names = names[at : at+1]
	}
	const enough = 5
	list := strings.Join(names[:min(len(names), enough)], ", ")
	switch {
	case k.auth != nil && k.auth.LoggedIn():
		return "" // what is known of logins is said by who has them
	case len(names) > 0 && status == http.StatusForbidden:
		return fmt.Sprintf("What server %q got in \"headers\" (%s) lacks the permission for this; put another credential there.", k.spec.Name, list) + useless
	case len(names) > 0:
		return fmt.Sprintf("Correct the token or key in \"headers\" (%s) of server %q: it is wrong, has expired or was removed.", list, k.spec.Name) + useless
	}
	old := ""
	if k.auth != nil {
		old = fmt.Sprintf(" If it has logins and does not announce them, as servers of 2025-03-26 may: metamcp auth login %s.", messages.ShellWord(k.spec.Name))
	}
	return fmt.Sprintf("Put what it wants into \"headers\" of server %q in the configuration, such as {\"Authorization\": \"Bearer ${secret:TOKEN}\"} or {\"X-Api-Key\": \"${secret:KEY}\"}; "+
		"metamcp secrets set keeps the value.", k.spec.Name) + old + useless
}

// wantsTLS says whether an answer is what servers of HTTPS say to plain HTTP.
func wantsTLS(status int, body []byte) bool {
	return status == http.StatusBadRequest && (bytes.Contains(body, []byte("HTTP request to an HTTPS server")) || bytes.Contains(body, []byte("plain HTTP request was sent to HTTPS port")))
}

// wordsOf is what the body of a refusal says, for people.
func wordsOf(body []byte) string {
	var b struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
		Message     string          `json:"message"`
	}
	if body = unmarked(body); json.Unmarshal(body, &b) != nil {
		return oneLine(body)
	}
	var inner struct {
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(b.Error, &inner) == nil && inner.Message != "":
		return oneLine([]byte(inner.Message))
	case b.Description != "":
		return oneLine([]byte(b.Description))
	case b.Message != "":
		return oneLine([]byte(b.Message))
	}
	return oneLine(body)
}

// dialAdvice says what to do about an error of the network that is known better
// than "check the url"; "" where nothing is.
func dialAdvice(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var wrong *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &name):
		return "The certificate is for other names (" + certified(name.Certificate) + "): use one of them in the url, if it is the same server."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "Its certificate is out of date, or not valid yet: whoever runs the server has to renew it; or the clock of this machine is wrong."
	case errors.As(err, &unknown), errors.As(err, &wrong):
		return "Its certificate cannot be verified. If it comes from an authority of your own, name the file with that authority's certificate as \"tls\": {\"ca\": …} of the server."
	case errors.Is(err, http.ErrSchemeMismatch):
		return "It speaks plain HTTP at this port: write http:// into the url, or the port at which it speaks HTTPS."
	case errors.As(err, new(tls.RecordHeaderError)):
		return "What listens at this port does not speak HTTPS: check the port in the url, or write http://."
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "The HTTP proxy on the way does not let it through: check HTTPS_PROXY and HTTP_PROXY, or name the host in NO_PROXY."
	}
	switch text := err.Error(); {
	case strings.Contains(text, "tls: certificate required"):
		return "The server wants to know its clients by a certificate: name yours and its key as \"tls\": {\"cert\": …, \"key\": …} of the server."
	case strings.Contains(text, "remote error: tls: ") && strings.Contains(text, "certificate"):
		return "The server does not take the certificate that it was shown: check \"tls\": {\"cert\": …, \"key\": …} of the server; it has to come from an authority that the server knows."
	case strings.Contains(text, "remote error: tls: "):
		return "The server broke off the TLS handshake. It may want a certificate of its clients (\"tls\": {\"cert\": …, \"key\": …} of the server), or speak no version of TLS that is still safe (1.2 and later)."
	}
	return ""
}

// certified lists the names that a certificate is for.
func certified(c *x509.Certificate) string {
	const enough = 5
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) > enough {
		names = append(names[:enough], "…")
	}
	if len(names) == 0 {
		return "none that can be compared"
	}
	return oneLine([]byte(strings.Join(names, ", ")))
}

// notSSE adds that a server which is no server of HTTP+SSE may be one of
// Streamable HTTP, where the configuration says that it is the former.
func (k *Link) notSSE(f *Error) *Error {
	if k.spec.Transport == messages.TransportSSE && !noCredential(f.Status) && f.Status < http.StatusInternalServerError && f.Status != http.StatusTooManyRequests {
		f.Advice = fmt.Sprintf("The \"type\" of server %q is \"sse\", and there is no such stream at its url. Most servers speak Streamable HTTP: write \"type\": \"http\", or leave it out.", k.spec.Name)
	}
	return f
}
