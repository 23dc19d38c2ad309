package askpage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// Prefix begins the paths of pages.
	Prefix = "/ask/"
	// TimeLimit is how long a page waits for its person.
	TimeLimit = 5 * time.Minute
	// MaxValue bounds a value, in bytes.
	MaxValue = 64 << 10
	// MaxFields bounds how many values a page asks for.
	MaxFields = 32
	// maxOpen bounds the pages of a host.
	maxOpen = 64

	maxHeaderBytes = 16 << 10
	requestTime    = 10 * time.Second
	answerTime     = time.Minute     // a keyring asks its user first
	farewell       = 2 * time.Second // for the last answer to reach the browser
)

// ErrDeclined says that the person does not want to give the values.
var ErrDeclined = errors.New("the user declined on the page")

// ErrTaken is what [Question.Keep] returns where it did not keep all values since
// some of them are there meanwhile. The page is answered all the same.
var ErrTaken = errors.New("values were given elsewhere meanwhile")

// Field is one value to ask for.
type Field struct {
	Name string
	// Description is what its server's description says of it, which anybody may have
	// written; it is shown as text.
	Description string
	// Secret hides what is typed.
	Secret bool
	// Choices are the only values that there are; nil: any.
	Choices []string
}

// Question is what a person is asked for. Its texts are shown as text, whatever is
// in them.
type Question struct {
	// Server is who gets the values, Package what is installed for it ("": it is
	// there already), Asker which client wants it, Why what for.
	Server, Package, Asker, Why string
	// Fields has 1 to [MaxFields] values to ask for.
	Fields []Field
	// Keep takes the values, which have been checked to be there and no longer than
	// [MaxValue]. Its error is shown to the person, who can try again, so it must
	// hold no value. It is called by one goroutine at a time, and not again once it
	// has returned nil or [ErrTaken].
	Keep func(ctx context.Context, values map[string]string) error
}

// Pages are those of one host. The zero value has no public URL. It is safe for
// any goroutine.
type Pages struct {
	// Public is where pages are reached from other machines, by way of
	// [Pages.ServeHTTP]; nil: nowhere.
	Public *url.URL

	mu   sync.Mutex
	open map[string]*Page // by token
}

// ErrNowhere says that a browser on another machine cannot reach the page.
var ErrNowhere = errors.New("there is no page that a browser on another machine could reach; set http.publicUrl for that")

// Open opens the page for a question until it is answered, ctx ends, or
// [TimeLimit] is over. local says that the person's browser is on this machine.
// Who opens a page waits for it with [Page.Wait].
func (s *Pages) Open(ctx context.Context, q Question, local bool) (*Page, error) {
	if len(q.Fields) == 0 || len(q.Fields) > MaxFields {
		return nil, fmt.Errorf("a page asks for 1 to %d values, not %d", MaxFields, len(q.Fields))
	}
	if !local && s.Public == nil {
		return nil, ErrNowhere
	}
	p := &Page{q: q, token: rand.Text() + rand.Text(), csrf: rand.Text(), browser: rand.Text(), answered: make(chan error, 1)}
	p.ctx, p.cancel = context.WithTimeout(ctx, TimeLimit)
	if err := s.add(p); err != nil {
		p.cancel()
		return nil, err
	}
	if !local {
		p.at(s.Public)
		return p, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		s.forget(p)
		p.cancel()
		return nil, fmt.Errorf("no port of this machine can be opened for the page: %w", err)
	}
	p.at(&url.URL{Scheme: "http", Host: l.Addr().String()})
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: requestTime, ReadTimeout: requestTime, WriteTimeout: answerTime, IdleTimeout: requestTime, MaxHeaderBytes: maxHeaderBytes,
	}
	p.served = make(chan struct{})
	go func() {
		defer close(p.served)
		_ = p.server.Serve(l) // until Wait ends it
	}()
	return p, nil
}

func (s *Pages) add(p *Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxOpen {
		return fmt.Errorf("%d pages wait for an answer already", maxOpen)
	}
	if s.open == nil {
		s.open = map[string]*Page{}
	}
	s.open[p.token] = p
	p.pages = s
	return nil
}

func (s *Pages) forget(p *Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, p.token)
}

// ServeHTTP serves the pages that are reached by the public URL.
func (s *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	p := s.open[strings.TrimPrefix(r.URL.Path, Prefix)]
	s.mu.Unlock()
	if p == nil || p.server != nil {
		bind(w)
		gone.write(w)
		return
	}
	p.ServeHTTP(w, r)
}
