package web_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/web"
	"github.com/metamcp/metamcp/messages"
)

// fakeHost is a fake: what it says is what a test put into it.
type fakeHost struct {
	mu       sync.Mutex
	status   messages.HostStatus
	fail     error                      // of everything
	watchers map[int]context.CancelFunc // who watches now
	tapes    []tape                     // one for each who ever watched
	hang     chan struct{}              // not nil: searches take until they are cancelled; gets one for each
}

// tape is what one watcher gets.
type tape struct {
	records chan messages.TraceRecord
	over    <-chan struct{} // closed when it watches no more
}

func newFakeHost() *fakeHost { return &fakeHost{watchers: map[int]context.CancelFunc{}} }

func (h *fakeHost) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *fakeHost) Status(context.Context) (*messages.HostStatus, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.status
	return &st, h.fail
}

func (h *fakeHost) Trace(ctx context.Context) (<-chan messages.TraceRecord, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		return nil, h.fail
	}
	ctx, cancel := context.WithCancel(ctx)
	n, out := len(h.tapes), make(chan messages.TraceRecord)
	in := tape{make(chan messages.TraceRecord), ctx.Done()}
	h.tapes = append(h.tapes, in)
	h.watchers[n] = cancel
	go func() {
		defer close(out)
		defer h.set(func() { delete(h.watchers, n) })
		for {
			select {
			case r := <-in.records:
				select {
				case out <- r:
				case <-in.over:
					return
				}
			case <-in.over:
				return
			}
		}
	}()
	return out, nil
}

// attached returns how many watch, and how many ever did.
func (h *fakeHost) attached() (now, ever int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.watchers), len(h.tapes)
}

// say sends a record to the last who watched, and reports whether it still
// does.
func (h *fakeHost) say(t *testing.T, r messages.TraceRecord) bool {
	t.Helper()
	h.mu.Lock()
	last := h.tapes[len(h.tapes)-1]
	h.mu.Unlock()
	select {
	case last.records <- r:
		return true
	case <-last.over:
		return false
	case <-time.After(patience):
		t.Fatal("nobody takes the record")
		return false
	}
}

// end closes the trace, as a host does that ends.
func (h *fakeHost) end() {
	h.mu.Lock()
	var all []context.CancelFunc
	for _, cancel := range h.watchers {
		all = append(all, cancel)
	}
	h.mu.Unlock()
	for _, cancel := range all {
		cancel()
	}
}

func (h *fakeHost) Search(ctx context.Context, q web.Query) (*web.Found, error) {
	h.mu.Lock()
	hang, fail := h.hang, h.fail
	h.mu.Unlock()
	if hang != nil {
		hang <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &web.Found{Matches: []web.Match{{Server: q.Server, Tool: q.Text, Score: 0.5}}, Pending: []string{}, Failed: []web.Failed{}, Notes: []string{}}, fail
}

func (h *fakeHost) Tool(_ context.Context, server, tool string) (json.RawMessage, error) {
	if server == "unknown" {
		return nil, &messages.Error{Code: messages.CodeServerNotFound, Message: "no server unknown", Hint: "look at the list"}
	}
	return json.Marshal(map[string]string{"name": tool})
}

// serve serves a fake host's page and ends it with the test.
func serve(t *testing.T, o web.Options) *web.Server {
	t.Helper()
	if o.Addr == "" {
		o.Addr = ":0"
	}
	s, err := web.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePage(t, s) })
	return s
}

// client speaks with a server as a browser with the cookie does.
type client struct {
	t      *testing.T
	http   *http.Client
	base   string
	cookie *http.Cookie
}

// visit opens the server's link.
func visit(t *testing.T, s *web.Server) *client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &client{t: t, base: strings.TrimSuffix(origin(t, s), "/"), http: &http.Client{
		Transport: transport, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	answer := c.send(c.request(s.URL()[len(c.base):]))
	for _, cookie := range answer.Cookies() {
		c.cookie = cookie
	}
	if answer.StatusCode != http.StatusSeeOther || c.cookie == nil {
		t.Fatalf("the link is answered with %s and no cookie", answer.Status)
	}
	return c
}

func origin(t *testing.T, s *web.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u.Scheme + "://" + u.Host
}

func (c *client) request(path string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.cookie != nil {
		r.AddCookie(&http.Cookie{Name: c.cookie.Name, Value: c.cookie.Value}) //nolint:gosec // G124: a request's cookie has no attributes
	}
	return r
}

// send returns the answer, whose body is read and closed.
func (c *client) send(r *http.Request) *http.Response {
	c.t.Helper()
	answer, _ := c.read(r)
	return answer
}

func (c *client) read(r *http.Request) (answer *http.Response, body string) {
	c.t.Helper()
	answer, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if closeErr := answer.Body.Close(); err != nil || closeErr != nil {
		c.t.Fatal(err, closeErr)
	}
	return answer, string(text)
}

// get returns status and body of a path.
func (c *client) get(path string) (status int, body string) {
	c.t.Helper()
	answer, body := c.read(c.request(path))
	return answer.StatusCode, body
}
