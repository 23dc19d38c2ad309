// Package httpembed is what embedders behind an HTTP API have in common: the
// requests of the API that OpenAI introduced and others took over, their size,
// pace and repetition, and the judging of answers.
//
// Queries and documents have lanes of their own, each with two requests in
// flight: a search never waits for a long indexing run, nor for the pause that
// a service has ordered for that.
package httpembed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/prep"
)

// inFlight is how many requests each lane has under way at most.
const inFlight = 2

// minText is below what no text is cut in search of what a model takes, in
// bytes.
const minText = 200

// Limits bound time and repetition. Zero values mean the defaults.
type Limits struct {
	// Attempts is how often a request with documents is made at most (5); one
	// with queries is made twice. Where nothing is at the address, neither is
	// made again.
	Attempts int
	// Backoff is how long to wait before the second attempt where the service
	// does not say (500 ms); it doubles up to MaxBackoff (20 s), with jitter.
	Backoff, MaxBackoff time.Duration
	// Request bounds one request, with its answer (1 min).
	Request time.Duration
	// Documents and Query bound one call of Embed, with all that it waits for
	// (5 min, 10 s).
	Documents, Query time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Attempts = cmp.Or(l.Attempts, 5)
	l.Backoff = cmp.Or(l.Backoff, 500*time.Millisecond)
	l.MaxBackoff = cmp.Or(l.MaxBackoff, 20*time.Second)
	l.Request = cmp.Or(l.Request, time.Minute)
	l.Documents = cmp.Or(l.Documents, 5*time.Minute)
	l.Query = cmp.Or(l.Query, 10*time.Second)
	return l
}

// Config describes a service. All but Key, Limits and Log are needed.
type Config struct {
	// Service is its name for people, Model what [embed.Embedder.Model] returns.
	Service, Model string
	// Endpoint is the URL to which texts are posted.
	Endpoint string
	// Key goes into the header Authorization, and nowhere else; "": none.
	Key string
	// KeyHint, ModelHint and URLHint tell what to do about a key that is
	// refused, a model that does not exist, and an address without this API.
	KeyHint, ModelHint, URLHint string
	// MaxTexts and MaxTokens bound one request, MaxText one text, in bytes.
	MaxTexts, MaxTokens, MaxText int
	// Encode returns the JSON object that asks for the vectors of texts.
	Encode func(kind embed.Kind, texts []string) any
	Limits Limits
	Log    *slog.Logger
}

// Client implements [embed.Embedder].
type Client struct {
	cfg       Config
	limits    Limits
	http      *http.Client
	transport *http.Transport
	lanes     [2]*lane
	// What the service turned out to take; and how many texts of documents it
	// manages in time, which may change.
	maxTexts, maxText, pace atomic.Int64

	closing   context.Context
	close     context.CancelFunc
	mu        sync.Mutex
	closed    bool
	calls     sync.WaitGroup
	dimension int
}

var _ embed.Embedder = (*Client)(nil)

// New returns a client. The error, an *[embed.Error], is about an endpoint that
// is no http or https URL, or a key that no header can hold.
func New(cfg Config) (*Client, error) {
	cfg.Key = strings.TrimSpace(cfg.Key)
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, &embed.Error{Reason: embed.Unauthorized, Message: "the key for " + cfg.Service + " has characters that no key has", Hint: cfg.KeyHint}
	}
	u, err := url.Parse(cfg.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, &embed.Error{Reason: embed.Misconfigured, Message: fmt.Sprintf("the address of %s is not an absolute http or https URL", cfg.Service), Hint: cfg.URLHint}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	limits := cfg.Limits.withDefaults()
	const (
		dialing = 10 * time.Second
		silence = 30 * time.Second
	)
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialing}).DialContext,
		TLSHandshakeTimeout:    dialing,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    2 * inFlight,
		IdleConnTimeout:        time.Minute,
		ForceAttemptHTTP2:      true,
		// A connection that died without a word would be used again and again.
		HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: dialing},
	}
	c := &Client{
		cfg: cfg, limits: limits, transport: transport,
		http:  &http.Client{Transport: transport, CheckRedirect: checkRedirect},
		lanes: [2]*lane{embed.Document: newLane(), embed.Query: newLane()},
	}
	c.maxTexts.Store(int64(max(cfg.MaxTexts, 1)))
	c.pace.Store(c.maxTexts.Load())
	c.maxText.Store(int64(max(cfg.MaxText, minText)))
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

// Model implements [embed.Embedder].
func (c *Client) Model() string { return c.cfg.Model }

// Batch implements [embed.Embedder].
func (c *Client) Batch() int { return max(c.cfg.MaxTexts, 1) }

// Close implements [embed.Embedder]: it ends calls that are under way, and all
// connections.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.calls.Wait()
	c.transport.CloseIdleConnections()
	return nil
}

// begin counts a call; done must be called at its end.
func (c *Client) begin() (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, c.failure(embed.Unavailable, "the embedder is closed")
	}
	c.calls.Add(1)
	return c.calls.Done, nil
}

// Embed implements [embed.Embedder]. All vectors come or none.
func (c *Client) Embed(parent context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	done, err := c.begin()
	if err != nil {
		return nil, err
	}
	defer done()
	if kind != embed.Query {
		kind = embed.Document
	}
	budget := c.limits.Documents
	if kind == embed.Query {
		budget = c.limits.Query
	}
	ctx, cancel := context.WithTimeout(parent, budget)
	defer cancel()
	stop := context.AfterFunc(c.closing, cancel)
	defer stop()

	vectors, err := c.embedAll(ctx, kind, texts)
	switch {
	case err == nil:
		return vectors, nil
	case parent.Err() != nil:
		return nil, parent.Err()
	case c.closing.Err() != nil:
		return nil, c.failure(embed.Unavailable, "the embedder was closed")
	}
	var e *embed.Error
	if errors.As(err, &e) {
		return nil, e
	}
	// What is left is the end of our own time.
	return nil, c.failure(embed.Unavailable, "%s did not answer within %v", c.cfg.Service, budget)
}

func (c *Client) embedAll(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var at []int // where the texts of a request belong
	var some []string
	tokens := 0
	flush := func() error {
		if len(some) == 0 {
			return nil
		}
		answers, err := c.embedFitting(ctx, kind, some)
		if err != nil {
			return err
		}
		for i, v := range answers {
			vectors[at[i]] = v
		}
		at, some, tokens = at[:0], nil, 0
		return nil
	}
	for i, text := range texts {
		text = prep.Text(text, c.cfg.MaxText)
		if text == "" {
			continue // the services refuse empty ones
		}
		n := estimateTokens(text)
		if len(some) > 0 && (len(some) >= int(min(c.maxTexts.Load(), c.pace.Load())) || tokens+n > c.cfg.MaxTokens) {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		at, some, tokens = append(at, i), append(some, text), tokens+n
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return vectors, c.sameDimension(vectors)
}

// estimateTokens is meant to be too high rather than too low.
func estimateTokens(text string) int {
	const bytesPerToken = 3 // English has some four letters in a token, Chinese three bytes in a character
	return len(text)/bytesPerToken + 1
}

// embedFitting sends texts, in smaller portions and shorter where the service
// finds them too many or too long; what it takes is remembered.
func (c *Client) embedFitting(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	limit := int(c.maxText.Load())
	sent := make([]string, len(texts))
	longest := 0
	for i, t := range texts {
		sent[i] = prep.Text(t, limit)
		longest = max(longest, len(sent[i]))
	}
	began := time.Now()
	vectors, err := c.retry(ctx, kind, sent)
	var size *sizeError
	var effort *effortError
	n := len(texts)
	switch {
	case err == nil:
		c.wasFast(n, time.Since(began))
		return vectors, nil
	case errors.As(err, &effort):
		lower(&c.pace, (n+1)/2)
		return c.embedHalves(ctx, kind, texts)
	case !errors.As(err, &size):
		return nil, err
	case n > 1:
		vectors, err := c.embedHalves(ctx, kind, texts)
		if err == nil && int(c.maxText.Load()) == limit { // none was too long, so they were too many
			lower(&c.maxTexts, (n+1)/2)
		}
		return vectors, err
	case longest/2 < minText:
		return nil, size.failure
	}
	lower(&c.maxText, longest/2)
	return c.embedFitting(ctx, kind, texts)
}

func (c *Client) embedHalves(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	half := len(texts) / 2
	first, err := c.embedFitting(ctx, kind, texts[:half])
	if err != nil {
		return nil, err
	}
	second, err := c.embedFitting(ctx, kind, texts[half:])
	if err != nil {
		return nil, err
	}
	return append(first, second...), nil
}

// wasFast lets requests grow again that had to become small, as when a server
// was busy or just loading its model.
func (c *Client) wasFast(n int, took time.Duration) {
	const leisurely = 4 // this part of the time that is allowed
	if pace := c.pace.Load(); int64(n) >= pace && took < c.limits.Request/leisurely {
		c.pace.CompareAndSwap(pace, min(2*pace, int64(max(c.cfg.MaxTexts, 1))))
	}
}

func lower(limit *atomic.Int64, to int) {
	for {
		now := limit.Load()
		if int64(to) >= now || limit.CompareAndSwap(now, int64(to)) {
			return
		}
	}
}

func (c *Client) sameDimension(vectors [][]float32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	dimension, err := prep.Dimension(vectors, c.dimension)
	if err != nil {
		e := c.failure(embed.BadAnswer, "%s answered with %v", c.cfg.Service, err)
		e.Hint, e.Cause = "Was its model replaced? End the hosts that use this state folder and run metamcp index rebuild, so that all texts are embedded with one model.", err
		return e
	}
	c.dimension = dimension
	return nil
}

func (c *Client) failure(reason embed.Reason, format string, args ...any) *embed.Error {
	return &embed.Error{Reason: reason, Message: c.clean(fmt.Sprintf(format, args...))}
}
