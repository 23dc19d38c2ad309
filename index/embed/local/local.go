// Package local embeds texts with a GGUF model on this machine. The model lives
// in a worker process, metamcp-embed, because llama.cpp is native code: it may
// crash, hang, or keep its memory, and the host must not notice. The worker
// starts with the first text, is started again when it crashes, killed when it
// hangs, and ended when it was idle for long.
//
// The worker is started with os/exec rather than as a child of the pool, which
// is made for servers that speak MCP. Nobody stays behind: it is the leader of
// a process group that is killed when the embedder closes, starts no process
// itself, and exits by itself when its standard input ends, which the system
// sees to even where the host was killed.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/prep"
)

// What a [Config] means where it says nothing.
const (
	DefaultStartTimeout = time.Minute
	DefaultPatience     = 30 * time.Second
	DefaultIdle         = 5 * time.Minute
	DefaultBackoff      = time.Second
	DefaultMaxBackoff   = time.Minute
)

// batch is how many texts one request holds. It takes some hundred
// milliseconds, and a query never waits for more than one of its texts.
const batch = 32

// maxText bounds what is sent to the worker, in bytes: no model of this kind
// sees more than a few thousand characters.
const maxText = 32 << 10

// A Config says what to start. Worker and Model are needed.
type Config struct {
	// Worker is the path of metamcp-embed, Model that of the GGUF file.
	Worker, Model string
	// ID names the model for [Embedder.Model]. It must change when the content
	// of the file does: the name and hash of an installed model. Empty: the
	// file's name.
	ID string
	// LibraryDirs are searched for llama.cpp before the system's folders.
	LibraryDirs []string
	// Environ is where the few variables come from that the worker gets; nil:
	// the environment of this process.
	Environ []string
	// GPULayers is how many layers a GPU computes; 0: none.
	GPULayers int
	// QueryPrefix and DocumentPrefix precede every text of their kind, where a
	// model was trained so.
	QueryPrefix, DocumentPrefix string
	// StartTimeout is how long loading the model may take, Patience how long
	// the worker may be silent while it has something to do, Idle how long it
	// stays without. Zero: the defaults.
	StartTimeout, Patience, Idle time.Duration
	// Backoff is how long to wait after the second crash in a row; it doubles
	// with each further one, up to MaxBackoff. The first one is not waited for.
	Backoff, MaxBackoff time.Duration
	// Log tells of crashes and restarts; nil: nobody.
	Log *slog.Logger
}

// Embedder implements [embed.Embedder].
type Embedder struct {
	cfg Config
	// lanes bounds what is sent at once, by kind: queries have their own.
	lanes [2]chan struct{}

	mu        sync.Mutex
	closed    bool
	current   *process // nil: none was started, or it ended
	running   sync.WaitGroup
	users     int // calls that use current
	idle      *time.Timer
	failures  int // in a row
	retryAt   time.Time
	last      *embed.Error // why the last worker ended
	dimension int
}

var _ embed.Embedder = (*Embedder)(nil)

// New returns an embedder. It starts nothing yet, and looks for no file: what
// is missing is an error of Embed, so that it can be installed while the host
// runs.
func New(cfg Config) *Embedder {
	cfg.ID = cmp.Or(cfg.ID, filepath.Base(cfg.Model))
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, DefaultStartTimeout)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	cfg.Idle = cmp.Or(cfg.Idle, DefaultIdle)
	cfg.Backoff = cmp.Or(cfg.Backoff, DefaultBackoff)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, DefaultMaxBackoff)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	const documents, queries = 2, 4
	e := &Embedder{cfg: cfg}
	e.lanes[embed.Document] = make(chan struct{}, documents)
	e.lanes[embed.Query] = make(chan struct{}, queries)
	return e
}

// Model implements [embed.Embedder].
func (e *Embedder) Model() string { return "local/" + e.cfg.ID }

// Batch implements [embed.Embedder].
func (*Embedder) Batch() int { return batch }

// Embed implements [embed.Embedder]. A worker that crashes is started again
// once; loading goes on even where ctx ends before it is done.
func (e *Embedder) Embed(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	if kind != embed.Query {
		kind = embed.Document
	}
	select {
	case e.lanes[kind] <- struct{}{}:
		defer func() { <-e.lanes[kind] }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	vectors := make([][]float32, 0, len(texts))
	for len(texts) > 0 {
		n := min(batch, len(texts))
		some, err := e.embedOnce(ctx, kind, texts[:n])
		if errors.Is(err, errCrashed) && ctx.Err() == nil {
			some, err = e.embedOnce(ctx, kind, texts[:n])
		}
		if err != nil {
			return nil, err
		}
		vectors, texts = append(vectors, some...), texts[n:]
	}
	return vectors, nil
}

func (e *Embedder) embedOnce(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := e.acquire()
	if err != nil {
		return nil, err
	}
	defer e.release(p)
	vectors, err := p.embed(ctx, kind == embed.Query, e.prepare(kind, texts))
	if err != nil {
		return nil, err
	}
	return vectors, e.accept(vectors)
}

func (e *Embedder) prepare(kind embed.Kind, texts []string) []string {
	prefix := e.cfg.DocumentPrefix
	if kind == embed.Query {
		prefix = e.cfg.QueryPrefix
	}
	prepared := make([]string, len(texts))
	for i, t := range texts {
		t = prep.Text(t, maxText)
		if t != "" {
			t = prefix + t
		}
		prepared[i] = t
	}
	return prepared
}

// accept checks that the model is still the one of before.
func (e *Embedder) accept(vectors [][]float32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures = 0
	dimension, err := prep.Dimension(vectors, e.dimension)
	if err != nil {
		return &embed.Error{
			Reason: embed.BadAnswer, Cause: err,
			Message: fmt.Sprintf("the local model %s makes vectors of another dimension than before: its file was replaced", e.cfg.ID),
			Hint:    "Restart metamcp, so that all texts are embedded with the new one.",
		}
	}
	e.dimension = dimension
	return nil
}

// acquire returns the worker, started if need be; [Embedder.release] must follow.
func (e *Embedder) acquire() (*process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, &embed.Error{Reason: embed.Unavailable, Message: "the local embedder is closed"}
	}
	if e.idle != nil {
		e.idle.Stop()
	}
	if e.current == nil {
		if wait := time.Until(e.retryAt); wait > 0 && e.last != nil {
			again := *e.last
			again.RetryAfter = wait
			return nil, &again
		}
		p, err := e.start()
		if err != nil {
			return nil, err
		}
		e.current = p
	}
	e.users++
	return e.current, nil
}

func (e *Embedder) release(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users--
	if e.users > 0 || e.closed || e.current != p {
		return
	}
	e.idle = time.AfterFunc(e.cfg.Idle, e.unload)
}

func (e *Embedder) unload() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users > 0 || e.current == nil {
		return
	}
	e.current.retire()
	e.current = nil
}

// start begins a worker. The caller holds the lock.
func (e *Embedder) start() (*process, error) {
	if err := e.look(); err != nil {
		return nil, err
	}
	p, err := launch(&e.cfg)
	if err != nil {
		return nil, workerError(e.cfg.Worker, err)
	}
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		defer close(p.gone)
		e.ended(p, p.supervise())
	}()
	return p, nil
}

// look explains what is missing, better than llama.cpp would.
func (e *Embedder) look() error {
	if _, err := os.Stat(e.cfg.Model); err != nil {
		message := fmt.Sprintf("the model file %s cannot be used: %v", e.cfg.Model, err)
		if errors.Is(err, fs.ErrNotExist) {
			message = fmt.Sprintf("there is no model file %s", e.cfg.Model)
		}
		return &embed.Error{
			Reason: embed.Misconfigured, Message: message, Cause: err,
			Hint: "Install one with `metamcp model install all-minilm-l6-v2`, or set search.embedder to another embedder.",
		}
	}
	return nil
}

// ended notes how a worker ended; nil: as it was told to.
func (e *Embedder) ended(p *process, failure *embed.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == p {
		e.current = nil
	}
	if failure == nil || e.closed {
		return
	}
	e.failures++
	wait := time.Duration(0)
	switch {
	case failure.Reason.Permanent():
		wait = e.cfg.MaxBackoff
	case e.failures > 1:
		const enough = 16 // doublings: beyond, the shift could overflow
		wait = min(e.cfg.Backoff<<min(e.failures-2, enough), e.cfg.MaxBackoff)
	}
	e.last, e.retryAt = failure, time.Now().Add(wait)
	e.cfg.Log.Warn("the local embedder ended", "error", failure, "failures", e.failures, "nextStartIn", wait)
}

// Running reports whether a worker runs now, loading or loaded.
func (e *Embedder) Running() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current != nil
}

// Close implements [embed.Embedder]: it kills the worker and waits for its end.
func (e *Embedder) Close() error {
	e.mu.Lock()
	e.closed = true
	if e.idle != nil {
		e.idle.Stop()
	}
	if e.current != nil {
		e.current.kill("the embedder was closed")
	}
	e.mu.Unlock()
	e.running.Wait()
	return nil
}
