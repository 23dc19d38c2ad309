package demoserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	maxLine = 160 << 20 // bytes of one request; longer ones end the server
	// maxRunning bounds the calls that take their time; one more is refused.
	maxRunning = 16_384
)

// Run serves one client until in ends or ctx does, and returns once nothing of
// it is running any more, but for the goroutine that reads in, which ends with
// in. Where the options ask for it, it exits the process instead of returning.
//
// The error is nil at the end of in and of ctx; otherwise it says what could
// not be read, written or started.
func Run(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	if err := opts.check(); err != nil {
		return err
	}
	life := time.AfterFunc(opts.MaxLife, func() { exit(3) })
	defer life.Stop()

	done, err := opts.arm(ctx, out)
	if done || errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	s := &server{
		opts:    opts,
		out:     &writer{out: out, garbage: opts.Garbage},
		running: map[string]*running{},
		asked:   map[string]chan message{},
		listens: map[string]json.RawMessage{},
		watches: map[string][]string{},
		content: content{touched: map[string]int{}, subscribed: map[string]bool{}},
	}
	s.tools = s.newToolbox()
	return s.serve(ctx, in)
}

// server is the state of one run. The goroutine in serve owns ready and level; all else
// is guarded by mu.
type server struct {
	opts  Options
	out   *writer
	tools *toolbox
	level string // of the log, as a legacy client asked for it
	ready bool   // notifications/initialized has come
	lists int    // how many times tools/list was asked

	wg      sync.WaitGroup // calls that take their time
	mu      sync.Mutex
	running map[string]*running
	asked   map[string]chan message // our own requests, by id
	lastAsk int
	listens map[string]json.RawMessage // open subscriptions, by request id
	watches map[string][]string        // what of resources they are for
	content content
	notes   []string
}

// running is a call that takes its time.
type running struct {
	cancel    context.CancelFunc
	cancelled bool
}

func (s *server) serve(ctx context.Context, in io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.wg.Wait()
	defer cancel()

	lines, readErr := readLines(ctx, in)
	if s.opts.Garbage {
		if err := s.out.line(nil); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok {
				return s.inputEnded(ctx, <-readErr)
			}
			if err := s.handle(ctx, line); err != nil {
				return fmt.Errorf("demo-server: answer: %w", err)
			}
		}
	}
}

// inputEnded waits where the options say so: for ever but for ctx and MaxLife.
func (s *server) inputEnded(ctx context.Context, err error) error {
	if s.opts.IgnoreEOF {
		_, _ = fmt.Fprintln(s.opts.stderr(), "demo-server: input has ended; staying, as told")
		<-ctx.Done()
	}
	if err != nil {
		return fmt.Errorf("demo-server: read: %w", err)
	}
	return nil
}

// readLines hands out the lines of in, one at a time, and closes the channel at
// its end. It keeps on reading only while somebody takes the lines.
func readLines(ctx context.Context, in io.Reader) (<-chan []byte, <-chan error) {
	lines := make(chan []byte)
	failed := make(chan error, 1)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(in)
		scan.Buffer(make([]byte, 0, 64<<10), maxLine)
		for scan.Scan() {
			select {
			case lines <- bytes.Clone(scan.Bytes()):
			case <-ctx.Done():
				failed <- nil
				return
			}
		}
		failed <- scan.Err()
	}()
	return lines, failed
}

// handle deals with one line. An error means that the client is gone.
func (s *server) handle(ctx context.Context, line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 || s.opts.Silent {
		return nil
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return s.out.failure(nil, &rpcError{Code: codeParse, Message: "not a JSON-RPC message: " + err.Error()})
	}
	switch {
	case m.Method == "" && len(m.ID) == 0:
		return s.out.failure(nil, &rpcError{Code: codeInvalidRequest, Message: "neither a method nor an id"})
	case m.Method == "":
		s.answered(m)
		return nil
	case len(m.ID) == 0:
		s.notified(m)
		return nil
	}
	return s.request(ctx, m)
}

func (s *server) notified(m message) {
	switch m.Method {
	case "notifications/initialized":
		s.ready = true
	case "notifications/cancelled":
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			s.cancel(string(p.RequestID))
		}
	}
}

func (s *server) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listens, id)
	delete(s.watches, id)
	if r := s.running[id]; r != nil && !r.cancelled {
		r.cancelled = true
		r.cancel()
	}
}

// background runs a call that takes its time. A cancelled call gets no answer,
// as the specification asks. Two calls of one id are refused: the answers
// could not be told apart.
func (s *server) background(ctx context.Context, c *call, run func(context.Context) (json.RawMessage, *rpcError)) error {
	id := string(c.id)
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel: cancel}
	s.mu.Lock()
	_, taken := s.running[id]
	full := len(s.running) >= maxRunning
	if !taken && !full {
		s.running[id] = r
	}
	s.mu.Unlock()
	switch {
	case taken:
		cancel()
		return s.out.failure(c.id, &rpcError{Code: codeInvalidRequest, Message: "a request with this id is still running"})
	case full:
		cancel()
		return s.out.failure(c.id, &rpcError{Code: codeBusy, Message: fmt.Sprintf("%d calls are running already", maxRunning)})
	}
	s.wg.Go(func() {
		defer cancel()
		result, failure := run(ctx)
		s.mu.Lock()
		cancelled := r.cancelled
		delete(s.running, id)
		s.mu.Unlock()
		switch {
		case cancelled:
			s.complain(appendLine(s.opts.CancelsFile, encode(c.record(s.opts.Name))))
		case ctx.Err() != nil: // the server ends
		case result == nil && failure == nil: // it has its answer
		default:
			s.complain(s.answer(c, result, failure))
		}
	})
	return nil
}

// answer writes the one answer to a call.
func (s *server) answer(c *call, result json.RawMessage, failure *rpcError) error {
	if failure != nil {
		return s.out.failure(c.id, failure)
	}
	return s.out.result(c.id, result)
}

// complain reports what nobody waits for.
func (s *server) complain(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(s.opts.stderr(), "demo-server:", err)
	}
}

func (c *call) record(name string) Record {
	return Record{PID: os.Getpid(), Name: name, ID: c.id, Tool: c.tool, Args: c.args}
}
