package front

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// maxLargeBodies is how many bodies above largeBody are read at once, so that
// many clients with large ones do not fill the memory.
const (
	maxLargeBodies = 16
	largeBody      = 256 << 10
)

// foreign refuses what a page in a browser must not do here: a name that
// somebody made point at this server would make it part of their origin. It
// writes the headers by which browsers let the pages of allowed origins read
// answers.
func (h *HTTP) foreign(w http.ResponseWriter, r *http.Request) *refusal {
	if !h.knownHost(r.Host) {
		return &refusal{
			status: http.StatusForbidden, code: codeInvalid,
			why: "this server is not called that; use its address or localhost, or name the host in the setting http.allowedHosts",
		}
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	if len(origins) > 1 || !h.knownOrigin(origins[0], r) {
		return &refusal{
			status: http.StatusForbidden, code: codeInvalid,
			why: "pages of this origin must not talk to this server; name the origin in the setting http.allowedOrigins if they should",
		}
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origins[0])
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, Retry-After")
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", allMethods)
		// Mcp-Param-… are named by the tools, so that what is asked for is allowed.
		if asked := r.Header.Get("Access-Control-Request-Headers"); len(asked) <= 1024 {
			header.Set("Access-Control-Allow-Headers", asked)
		}
		header.Set("Access-Control-Max-Age", "600")
	}
	return nil
}

// knownHost says whether a client may call the server so. Addresses point
// where they say; names are anybody's.
func (h *HTTP) knownHost(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" || h.hosts[name] || h.hosts[strings.ToLower(host)] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.Unmap().IsLoopback() || !h.o.LoopbackOnly)
}

// knownOrigin says whether the pages of an origin may talk to this server: its
// own, which has none, and those that the settings name.
func (h *HTTP) knownOrigin(origin string, r *http.Request) bool {
	if h.origin[strings.ToLower(origin)] {
		return true
	}
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// accepts says which kinds of answers a client takes.
func accepts(r *http.Request) (object, stream bool) {
	given := r.Header.Values("Accept")
	if len(given) == 0 {
		return true, true
	}
	for part := range strings.SplitSeq(strings.Join(given, ","), ",") {
		switch kind, _, _ := mime.ParseMediaType(part); kind { // a broken one is none
		case "*/*":
			object, stream = true, true
		case "application/json", "application/*":
			object = true
		case "text/event-stream", "text/*":
			stream = true
		}
	}
	return object, stream
}

// body reads the body of a request whole, without line breaks.
func (h *HTTP) body(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: codeInvalid, why: "the Content-Type of a message is application/json"}
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &refusal{status: http.StatusUnsupportedMediaType, code: codeInvalid, why: "messages are taken without a Content-Encoding"}
	}
	tooLarge := &refusal{status: http.StatusRequestEntityTooLarge, code: codeInvalid, why: "the body is longer than one message may be (the setting http.maxBodyKb)"}
	if r.ContentLength > h.o.MaxBody {
		return nil, tooLarge
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.o.Patience)) // what cannot be bounded is read all the same
	limited := http.MaxBytesReader(w, r.Body, h.o.MaxBody)
	failed := func(err error) *refusal {
		w.Header().Set("Connection", "close") // nobody waits for the rest
		var most *http.MaxBytesError
		if errors.As(err, &most) {
			return tooLarge
		}
		return &refusal{status: http.StatusBadRequest, code: codeParse, why: "the body could not be read in time: " + err.Error()}
	}
	first := make([]byte, 0, min(max(r.ContentLength, 512), largeBody)+1)
	for len(first) <= largeBody {
		if len(first) == cap(first) {
			first = append(first, 0)[:len(first)]
		}
		n, err := limited.Read(first[len(first):min(cap(first), largeBody+1)])
		first = first[:len(first)+n]
		if errors.Is(err, io.EOF) {
			return flat(first), nil
		}
		if err != nil {
			return nil, failed(err)
		}
	}
	select {
	case h.large <- struct{}{}:
		defer func() { <-h.large }()
	case <-r.Context().Done():
		return nil, failed(r.Context().Err())
	}
	rest, err := io.ReadAll(limited)
	if err != nil {
		return nil, failed(err)
	}
	return flat(append(first, rest...)), nil
}
