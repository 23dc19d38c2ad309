package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/prep"
	"github.com/metamcp/metamcp/index/embed/local/wire"
)

// retireGrace is how long a worker may take to exit after its input ended.
const retireGrace = 2 * time.Second

// errCrashed is the cause of errors that a new worker may not repeat.
var errCrashed = errors.New("the worker ended")

// A process is one run of the worker.
type process struct {
	cfg    *Config
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.Reader
	stderr *tail
	send   chan wire.Request
	ready  chan struct{} // closed when the model is loaded
	over   chan struct{} // closed when the process was reaped
	gone   chan struct{} // closed when the embedder noted that too
	// failure is what they mean; set before.
	failure *embed.Error
	silent  *time.Timer // ends a worker that says nothing; set by supervise

	mu      sync.Mutex
	reaping bool // its process group must not be signalled any more
	retired bool
	grace   *time.Timer
	sign    time.Time // of life, or when it got something to do
	reason  string    // why it was killed
	failed  *embed.Error
	greeted bool // so its libraries are there
	loaded  bool
	nextID  uint64
	pending map[uint64]*call
}

// A call is one request that waits for its answers.
type call struct {
	vectors [][]float32
	next    int
	done    chan error // holds one
}

func launch(cfg *Config) (*process, error) {
	cmd := exec.Command(cfg.Worker) //nolint:noctx // it outlives every call; Close kills it
	// kelindar/search looks into the working folder as well, which must not be
	// that of the project somebody happens to be in.
	cmd.Dir = filepath.Dir(cfg.Model)
	cmd.Env = environment(cfg)
	cmd.WaitDelay = retireGrace
	ownGroup(cmd)
	p := &process{
		cfg: cfg, cmd: cmd, stderr: new(tail),
		send: make(chan wire.Request, 16), ready: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{}),
		pending: map[uint64]*call{},
	}
	cmd.Stderr = p.stderr
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return p, nil
}

// supervise lives as long as the process. It returns why that ended; nil where
// it was meant to.
func (p *process) supervise() *embed.Error {
	p.silent = time.AfterFunc(p.cfg.StartTimeout, p.checkSilence)
	var writer sync.WaitGroup
	writer.Go(p.write)
	model := p.cfg.Model
	if absolute, err := filepath.Abs(model); err == nil {
		model = absolute
	}
	p.send <- wire.Request{Type: wire.Load, Model: model, GPULayers: p.cfg.GPULayers} // the first of sixteen
	err := p.read()

	p.mu.Lock()
	killGroup(p.cmd)
	p.reaping = true
	if p.grace != nil {
		p.grace.Stop()
	}
	p.mu.Unlock()
	p.silent.Stop()
	_ = p.stdin.Close()
	_ = p.cmd.Wait() // it says less than p.explain
	p.failure = p.explain(err)
	close(p.over)
	writer.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return nil
	}
	return p.failure
}

func (p *process) write() {
	for {
		select {
		case r := <-p.send:
			if wire.Write(p.stdin, r) != nil {
				return // the reader sees the end too, and says why
			}
		case <-p.over:
			return
		}
	}
}

func (p *process) read() error {
	in := bufio.NewReaderSize(p.stdout, 64<<10)
	var hello wire.Answer
	if err := wire.Read(in, &hello); err != nil {
		return err
	}
	if hello.Type != wire.Hello || hello.Version != wire.Version {
		return &versionError{hello.Version}
	}
	p.mu.Lock()
	p.greeted = true
	p.mu.Unlock()
	for {
		var a wire.Answer
		if err := wire.Read(in, &a); err != nil {
			return err
		}
		if err := p.take(&a); err != nil {
			return err
		}
	}
}

type versionError struct{ got int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it speaks version %d of the protocol; this metamcp speaks %d", e.got, wire.Version)
}

func (p *process) take(a *wire.Answer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sign = time.Now()
	p.silent.Reset(p.cfg.Patience)
	switch a.Type {
	case wire.Loaded:
		if p.loaded {
			return errors.New("it loaded twice")
		}
		p.loaded = true
		close(p.ready)
		return nil
	case wire.Failed:
		if a.ID == 0 {
			p.failed = loadError(p.cfg.Model, a.Message)
			return p.failed
		}
		p.finish(a.ID, textError(p.cfg.ID, a.Message))
		return nil
	case wire.Vector:
		return p.vector(a)
	case wire.Done:
		c := p.pending[a.ID]
		if c != nil && c.next < len(c.vectors) {
			return errors.New("an answer lacks vectors")
		}
		p.finish(a.ID, nil)
		return nil
	default:
		return fmt.Errorf("it sent %q", a.Type)
	}
}

func (p *process) vector(a *wire.Answer) error {
	c := p.pending[a.ID]
	if c == nil {
		return nil // nobody waits for it any more
	}
	if a.Index != c.next || a.Index >= len(c.vectors) {
		return fmt.Errorf("a vector for text %d came where that of %d was due", a.Index, c.next)
	}
	v, err := wire.Unpack(a.Values)
	if err != nil {
		return err
	}
	if c.vectors[a.Index], err = prep.Unit(v); err != nil {
		p.finish(a.ID, &embed.Error{
			Reason:  embed.BadAnswer,
			Message: fmt.Sprintf("the local model %s answered with a vector that cannot be used: %v", p.cfg.ID, err),
		})
		return nil
	}
	c.next++
	return nil
}

// finish ends a call; the lock is held.
func (p *process) finish(id uint64, err error) {
	if c := p.pending[id]; c != nil {
		delete(p.pending, id)
		c.done <- err
	}
}

// embed asks for the vectors of texts. It returns once ctx ends, whatever the
// worker does.
func (p *process) embed(ctx context.Context, query bool, texts []string) ([][]float32, error) {
	select {
	case <-p.ready:
	case <-p.gone:
		return nil, p.failure
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c := &call{vectors: make([][]float32, len(texts)), done: make(chan error, 1)}
	p.mu.Lock()
	p.nextID++
	id := p.nextID
	if len(p.pending) == 0 {
		p.sign = time.Now()
		p.silent.Reset(p.cfg.Patience)
	}
	p.pending[id] = c
	p.mu.Unlock()
	select {
	case p.send <- wire.Request{Type: wire.Embed, ID: id, Query: query, Texts: texts}:
	case <-p.gone:
		return nil, p.failure
	case <-ctx.Done():
		p.forget(id)
		return nil, ctx.Err()
	}
	select {
	case err := <-c.done:
		return c.vectors, err
	case <-p.gone:
		return nil, p.failure
	case <-ctx.Done():
		p.forget(id)
		select {
		case p.send <- wire.Request{Type: wire.Cancel, ID: id}:
		default: // it does not read; then it is killed soon
		}
		return nil, ctx.Err()
	}
}

func (p *process) forget(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, id)
}

// checkSilence runs when nothing came for the time that is allowed.
func (p *process) checkSilence() {
	p.mu.Lock()
	// The timer may have gone off just when something came.
	loaded, busy := p.loaded, len(p.pending) > 0 && time.Since(p.sign) >= p.cfg.Patience
	p.mu.Unlock()
	switch {
	case !loaded:
		p.kill(fmt.Sprintf("it had not loaded the model after %v", p.cfg.StartTimeout))
	case busy:
		p.kill(fmt.Sprintf("it had been silent for %v while it had a text to embed", p.cfg.Patience))
	}
}

// kill ends the process group. The first reason is the one that is told.
func (p *process) kill(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaping {
		return
	}
	if p.reason == "" {
		p.reason = reason
	}
	killGroup(p.cmd)
}

// retire ends a process that has nothing to do.
func (p *process) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	if p.reaping {
		return
	}
	_ = p.stdin.Close()
	p.grace = time.AfterFunc(retireGrace, func() { p.kill("it did not exit") })
}
