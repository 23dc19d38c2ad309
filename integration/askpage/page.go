package askpage

import (
	"context"
	"crypto/subtle"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Page waits for the answer to one question.
type Page struct {
	q      Question
	pages  *Pages
	ctx    context.Context //nolint:containedctx // of the question
	cancel context.CancelFunc

	token    string // in the path
	csrf     string // in the form
	browser  string // in the cookie of the browser that opened it first
	base     *url.URL
	answered chan error

	server *http.Server // nil: somebody else serves it
	served chan struct{}

	mu     sync.Mutex
	opened bool // by a browser
	over   bool // it was answered
	busy   bool // an answer is being kept

	keeping sync.WaitGroup
}

func (p *Page) at(base *url.URL) { p.base = base }

// URL is the address for the person's browser. Who has it can answer, so it goes
// to that person's client alone.
func (p *Page) URL() string {
	return strings.TrimSuffix(p.base.String(), "/") + Prefix + p.token
}

// Wait waits for the answer and closes the page. The error is nil where the values
// were kept, [ErrDeclined], or that of the context: of the one that the page was
// opened with, or of its time limit. Keep does not run any more then.
func (p *Page) Wait() error {
	var err error
	select {
	case err = <-p.answered:
	case <-p.ctx.Done():
		err = p.ctx.Err()
	}
	p.close()
	select {
	case err = <-p.answered: // it came at the last moment
	default:
	}
	return err
}

func (p *Page) close() {
	p.pages.forget(p)
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	defer p.cancel()
	defer p.keeping.Wait()
	if p.server == nil {
		return
	}
	// The browser gets its last page first.
	ctx, stop := context.WithTimeout(context.WithoutCancel(p.ctx), farewell)
	defer stop()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close() // connections have no errors that matter
	}
	<-p.served
}

// answer is what is written where there is no form.
type answer struct {
	status int
	Text   string
}

var (
	gone      = &answer{http.StatusNotFound, "There is no such page, or it was answered, or what it asked for was given elsewhere, or its client or its time is over. If something is still missing, ask the client to try again."}
	foreign   = &answer{http.StatusForbidden, "Another site or program asked for this. Open the address that the client showed."}
	elsewhere = &answer{http.StatusForbidden, "This page was opened in another browser already, and can be answered there alone. If that was not you, close it and tell the client no."}
	malformed = &answer{http.StatusBadRequest, "This is not what the form of this page sends. Go back and try again."}
	pending   = &answer{http.StatusConflict, "An answer is being kept already."}
	kept      = &answer{http.StatusOK, "The values are kept. You can close this window and go back to the client."}
	taken     = &answer{http.StatusOK, "Somebody else has given values of these names meanwhile, and those stay; what you entered for them was not kept. You can close this window and go back to the client."}
	declined  = &answer{http.StatusOK, "Nothing was kept. You can close this window and go back to the client."}
)

func (a *answer) write(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.WriteHeader(a.status)
	_ = plainPage().Execute(w, a) // who is gone needs no answer
}

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bind(w)
	// A name that somebody made point here would make the page part of their origin.
	if !strings.EqualFold(r.Host, p.base.Host) {
		foreign.write(w)
		return
	}
	token, ok := strings.CutPrefix(r.URL.Path, Prefix)
	if !ok || !same(token, p.token) {
		gone.write(w)
		return
	}
	switch r.Method {
	case http.MethodGet:
		p.show(w, r)
	case http.MethodPost:
		p.take(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		(&answer{http.StatusMethodNotAllowed, "This page is opened and answered, and nothing else."}).write(w)
	}
}

// bind sets the headers that keep the page to itself.
func bind(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer a browser would send "Origin: null" with the form.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// show shows the form, to the first browser that asks for it.
func (p *Page) show(w http.ResponseWriter, r *http.Request) {
	purpose := r.Header.Get("Sec-Purpose") + r.Header.Get("Purpose")
	if dest := r.Header.Get("Sec-Fetch-Dest"); dest != "" && dest != "document" || strings.Contains(purpose, "prefetch") {
		foreign.write(w) // a frame or a preview, and no person
		return
	}
	p.mu.Lock()
	first := !p.opened
	p.opened = true
	over := p.over
	p.mu.Unlock()
	switch {
	case over:
		gone.write(w)
		return
	case first:
		http.SetCookie(w, &http.Cookie{Name: p.cookie(), Value: p.browser, Path: "/", HttpOnly: true, Secure: p.base.Scheme == "https", SameSite: http.SameSiteLaxMode, MaxAge: int(TimeLimit.Seconds())}) //nolint:gosec // G124: there is no TLS on the loopback
	case !p.mine(r):
		elsewhere.write(w)
		return
	}
	p.form(w, http.StatusOK, "", nil)
}

// cookie is the name of the cookie. Cookies do not tell ports apart, so it has a
// part of the page's own; that one opens nothing.
func (p *Page) cookie() string { return "metamcp-ask-" + p.csrf[:8] }

// mine says whether the browser that opened the page first sends a request.
func (p *Page) mine(r *http.Request) bool {
	for _, c := range r.CookiesNamed(p.cookie()) {
		if same(c.Value, p.browser) {
			return true
		}
	}
	return false
}

// take takes what the form sends.
func (p *Page) take(w http.ResponseWriter, r *http.Request) {
	origin := (&url.URL{Scheme: p.base.Scheme, Host: p.base.Host}).String()
	site := r.Header.Get("Sec-Fetch-Site")
	if !strings.EqualFold(r.Header.Get("Origin"), origin) || site != "" && site != "same-origin" {
		foreign.write(w)
		return
	}
	if !p.mine(r) {
		elsewhere.write(w)
		return
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		malformed.write(w)
		return
	}
	// A byte may take three in a form.
	const most, rest = 3 * MaxValue, 8 << 10
	r.Body = http.MaxBytesReader(w, r.Body, int64(len(p.q.Fields))*most+rest)
	if r.ParseForm() != nil || !same(r.PostForm.Get("csrf"), p.csrf) {
		malformed.write(w)
		return
	}
	if refused := p.begin(); refused != nil {
		refused.write(w)
		return
	}
	defer p.keeping.Done()
	if r.PostForm.Get("do") != "keep" {
		p.end(ErrDeclined)
		declined.write(w)
		return
	}
	values, wrong := p.values(r.PostForm)
	if wrong == "" {
		switch err := p.q.Keep(p.ctx, values); {
		case errors.Is(err, ErrTaken):
			p.end(nil)
			taken.write(w)
			return
		case err != nil && p.ctx.Err() != nil: // it was closed meanwhile
			gone.write(w)
			return
		case err != nil:
			wrong = err.Error()
		}
	}
	if wrong != "" {
		p.mu.Lock()
		p.busy = false
		p.mu.Unlock()
		p.form(w, http.StatusUnprocessableEntity, wrong, values)
		return
	}
	p.end(nil)
	kept.write(w)
}

// begin says that an answer is taken, or why it cannot be.
func (p *Page) begin() *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over || p.ctx.Err() != nil:
		return gone
	case p.busy:
		return pending
	}
	p.busy = true
	p.keeping.Add(1)
	return nil
}

func (p *Page) end(err error) {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.answered <- err
}

// values reads the values of a form. wrong is for the person, and holds none of
// them.
func (p *Page) values(form url.Values) (values map[string]string, wrong string) {
	values = map[string]string{}
	for i := range p.q.Fields {
		f := &p.q.Fields[i]
		// What is pasted often has a space or a line break at its end.
		value := strings.TrimSpace(form.Get(fieldName(i)))
		values[f.Name] = value
		switch err := f.check(value); {
		case wrong != "":
		case err != nil:
			wrong = Clean(f.Name) + ": " + err.Error()
		}
	}
	return values, wrong
}

func (f *Field) check(value string) error {
	switch {
	case value == "":
		return errors.New("a value is needed")
	case len(value) > MaxValue:
		return errors.New("the value is longer than 64 KiB")
	case strings.IndexByte(value, 0) >= 0:
		return errors.New("the value holds a NUL byte")
	}
	for i, c := range f.Choices {
		switch {
		case c == value:
			return nil
		case i == len(f.Choices)-1:
			return errors.New("this is none of its values")
		}
	}
	return nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
