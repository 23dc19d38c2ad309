package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
)

// tokenBytes is the size of a secret: 256 bits.
const tokenBytes = 32

// policy lets the page load, and talk to, nothing but this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard lets through who may look, and nobody else.
type guard struct {
	token  string          // in the URL
	secret string          // in the cookie, so that the token is not
	cookie string          // its name; cookies do not tell ports apart
	hosts  map[string]bool // what a browser may call this server
}

// newGuard guards a server that listens on a loopback address.
func newGuard(ip, port string) *guard {
	g := &guard{token: newSecret(), secret: newSecret(), cookie: "metamcp-" + port, hosts: map[string]bool{}}
	for _, name := range []string{ip, "127.0.0.1", "::1", "localhost"} {
		g.hosts[net.JoinHostPort(name, port)] = true
		if port == "80" {
			g.hosts[strings.TrimSuffix(net.JoinHostPort(name, port), ":80")] = true
		}
	}
	return g
}

func newSecret() string {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // it never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// wrap makes every answer carry the headers that bind a browser, and refuses
// requests that do not come from the page.
func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if f := g.refuses(r); f != nil {
			if f.status == http.StatusMethodNotAllowed {
				h.Set("Allow", http.MethodGet)
			}
			if strings.Contains(r.Header.Get("Accept"), "text/html") {
				h.Set("Content-Type", "text/plain; charset=utf-8")
				w.WriteHeader(f.status)
				_, _ = w.Write([]byte("metamcp: " + f.Message + ".\n" + f.Hint + "\n")) // as above
				return
			}
			writeFailure(w, f)
			return
		}
		if r.URL.Path == "/" && r.URL.Query().Has("token") {
			http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // G124: there is no TLS on loopback, and not every browser keeps a Secure cookie without
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuses returns why a request is not answered; nil: it is.
func (g *guard) refuses(r *http.Request) *failure {
	if r.Method != http.MethodGet {
		return &failure{http.StatusMethodNotAllowed, codeMethod, "this server only answers GET", "The page changes nothing."}
	}
	// A name that an attacker made point here would make this server part of
	// the attacker's origin.
	if !g.hosts[strings.ToLower(r.Host)] {
		return &failure{http.StatusForbidden, codeForbidden, "this server is not called that", "Open the link that the host printed."}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" {
		return &failure{http.StatusForbidden, codeForbidden, "another site asked for this", "Paste the link that the host printed into the address bar."}
	}
	if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, "http://"+r.Host) {
		return &failure{http.StatusForbidden, codeForbidden, "another site asked for this", "Paste the link that the host printed into the address bar."}
	}
	if r.ContentLength != 0 {
		return &failure{http.StatusBadRequest, codeBadRequest, "this server takes no bodies", "Send the request without one."}
	}
	if r.URL.Path == "/" {
		if token := r.URL.Query().Get("token"); token != "" && same(token, g.token) {
			return nil
		}
	}
	for _, c := range r.CookiesNamed(g.cookie) {
		if same(c.Value, g.secret) {
			return nil
		}
	}
	return &failure{http.StatusUnauthorized, codeToken, "this needs the link with the token", "Open the link that the host printed on stderr when it started; every start makes a new one."}
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
