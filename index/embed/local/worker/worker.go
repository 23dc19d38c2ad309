// Package worker is what the process metamcp-embed does: it answers requests
// of the protocol in package wire with a model that somebody else loads.
package worker

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/metamcp/metamcp/index/embed/local/wire"
)

// maxWaiting bounds the embeddings that wait. The host sends far fewer.
const maxWaiting = 256

// A Model turns one text at a time into a vector.
type Model interface {
	// Embed is called by one goroutine at a time, with valid UTF-8 that has no
	// NUL, is not blank and is no longer than the model can take.
	Embed(text string) ([]float32, error)
}

// Serve answers the requests of in until that ends, and then returns at once,
// even if the model is at work: the process is meant to exit, for native code
// cannot be stopped otherwise. The error says why the conversation could not go
// on; nil where in just ended.
func Serve(in io.Reader, out io.Writer, load func(path string, gpuLayers int) (Model, error)) error {
	s := &server{out: out, load: load, wake: make(chan struct{}, 1), broken: make(chan error, 1)}
	defer s.end()
	if err := s.send(wire.Answer{Type: wire.Hello, Version: wire.Version}); err != nil {
		return err
	}
	read := make(chan error, 1)
	go func() { read <- s.read(in) }()
	select {
	case err := <-read:
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case err := <-s.broken:
		return err
	}
}

// job is an embedding that is not done yet.
type job struct {
	id    uint64
	texts []string
	next  int
}

type server struct {
	out  io.Writer
	load func(path string, gpuLayers int) (Model, error)

	sending sync.Mutex
	broken  chan error // the output is gone
	wake    chan struct{}

	mu                 sync.Mutex
	loaded, ended      bool
	queries, documents []*job
}

func (s *server) send(a wire.Answer) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return wire.Write(s.out, a)
}

func (s *server) read(in io.Reader) error {
	for {
		var r wire.Request
		if err := wire.Read(in, &r); err != nil {
			return err
		}
		if err := s.handle(&r); err != nil {
			return err
		}
	}
}

func (s *server) handle(r *wire.Request) error {
	switch r.Type {
	case wire.Load:
		if s.loaded {
			return errors.New("the host asked for a second model")
		}
		s.loaded = true
		go s.work(r.Model, r.GPULayers)
	case wire.Embed:
		j := &job{id: r.ID, texts: r.Texts}
		s.mu.Lock()
		full := len(s.queries)+len(s.documents) >= maxWaiting
		switch {
		case full:
		case r.Query:
			s.queries = append(s.queries, j)
		default:
			s.documents = append(s.documents, j)
		}
		s.mu.Unlock()
		if full {
			return s.send(wire.Answer{Type: wire.Failed, ID: r.ID, Message: fmt.Sprintf("more than %d requests wait", maxWaiting)})
		}
		s.ring()
	case wire.Cancel:
		s.mu.Lock()
		s.queries, s.documents = without(s.queries, r.ID), without(s.documents, r.ID)
		s.mu.Unlock()
	default:
		return fmt.Errorf("the host sent %q, which this worker does not know", r.Type)
	}
	return nil
}

func without(jobs []*job, id uint64) []*job {
	for i, j := range jobs {
		if j.id == id {
			return append(jobs[:i:i], jobs[i+1:]...)
		}
	}
	return jobs
}

func (s *server) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *server) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.ring()
}

// work owns the model.
func (s *server) work(path string, gpuLayers int) {
	if err := s.serveModel(path, gpuLayers); err != nil {
		s.broken <- err
	}
}

func (s *server) serveModel(path string, gpuLayers int) error {
	cut, err := newCutter(path)
	if err != nil {
		return s.send(wire.Answer{Type: wire.Failed, Message: err.Error()})
	}
	model, err := s.load(path, gpuLayers)
	if err != nil {
		return s.send(wire.Answer{Type: wire.Failed, Message: err.Error()})
	}
	if err := s.send(wire.Answer{Type: wire.Loaded, MaxTokens: cut.max}); err != nil {
		return err
	}
	for {
		j, index, over := s.next()
		if over {
			return nil
		}
		if j == nil {
			<-s.wake
			continue
		}
		if err := s.embed(model, cut, j, index); err != nil {
			return err
		}
	}
}

// next takes the next text. A job leaves its queue with its last text.
func (s *server) next() (j *job, index int, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := &s.queries
	if len(s.queries) == 0 {
		queue = &s.documents
	}
	if s.ended || len(*queue) == 0 {
		return nil, 0, s.ended
	}
	j = (*queue)[0]
	index = j.next
	j.next++
	if j.next >= len(j.texts) {
		*queue = (*queue)[1:]
	}
	return j, index, false
}

func (s *server) embed(model Model, cut *cutter, j *job, index int) error {
	if len(j.texts) > 0 {
		var vector []float32
		if text := cut.prepare(j.texts[index]); text != "" {
			var err error
			if vector, err = model.Embed(text); err != nil {
				s.mu.Lock()
				s.queries, s.documents = without(s.queries, j.id), without(s.documents, j.id)
				s.mu.Unlock()
				return s.send(wire.Answer{Type: wire.Failed, ID: j.id, Message: err.Error()})
			}
		}
		if err := s.send(wire.Answer{Type: wire.Vector, ID: j.id, Index: index, Values: wire.Pack(vector)}); err != nil {
			return err
		}
	}
	if index+1 < len(j.texts) {
		return nil
	}
	return s.send(wire.Answer{Type: wire.Done, ID: j.id})
}
