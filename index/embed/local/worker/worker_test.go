package worker

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/index/embed/local/wire"
	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stepModel embeds one text for each value it is given.
type stepModel struct {
	begun chan string
	step  chan struct{}
}

func (m *stepModel) Embed(text string) ([]float32, error) {
	m.begun <- text
	<-m.step
	if text == "fail" {
		return nil, errors.New("no way")
	}
	return []float32{float32(len(text))}, nil
}

// session is a worker and its host's ends of the pipes.
type session struct {
	t      *testing.T
	in     *io.PipeWriter
	out    *io.PipeReader
	model  *stepModel
	ended  chan error
	loaded string
}

func start(t *testing.T) *session {
	t.Helper()
	in, hostIn := io.Pipe()
	hostOut, out := io.Pipe()
	s := &session{t: t, in: hostIn, out: hostOut, model: &stepModel{make(chan string), make(chan struct{})}, ended: make(chan error, 1)}
	go func() {
		s.ended <- Serve(in, out, func(path string, gpuLayers int) (Model, error) {
			if gpuLayers == 99 {
				return nil, errors.New("no such GPU")
			}
			s.loaded = path
			return s.model, nil
		})
		_ = in.Close()
		_ = out.Close()
	}()
	s.want(wire.Answer{Type: wire.Hello, Version: wire.Version})
	return s
}

func (s *session) load() {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, gguftest.BERT{Context: 40, Layers: 1}.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.ask(wire.Request{Type: wire.Load, Model: path})
	s.want(wire.Answer{Type: wire.Loaded, MaxTokens: 40})
	if s.loaded != path {
		s.t.Errorf("loaded %s", s.loaded)
	}
}

func (s *session) ask(r wire.Request) {
	s.t.Helper()
	if err := wire.Write(s.in, r); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) want(want wire.Answer) {
	s.t.Helper()
	var got wire.Answer
	if err := wire.Read(s.out, &got); err != nil {
		s.t.Fatal(err)
	}
	if got.Type != want.Type || got.ID != want.ID || got.Index != want.Index || got.Version != want.Version || got.MaxTokens != want.MaxTokens || !strings.Contains(got.Message, want.Message) {
		s.t.Fatalf("got %+v, want %+v", got, want)
	}
}

func (s *session) begins(text string) {
	s.t.Helper()
	select {
	case got := <-s.model.begun:
		if got != text {
			s.t.Fatalf("it embeds %q, not %q", got, text)
		}
	case <-time.After(20 * time.Second):
		s.t.Fatalf("it does not embed %q", text)
	}
}

// end closes the input and waits.
func (s *session) end() error {
	_ = s.in.Close()
	return <-s.ended
}

func TestOrder(t *testing.T) {
	s := start(t)
	s.load()
	s.ask(wire.Request{Type: wire.Embed, ID: 1, Texts: []string{"a", "b", "c"}})
	s.begins("a")
	s.ask(wire.Request{Type: wire.Embed, ID: 2, Texts: []string{"later"}})
	s.ask(wire.Request{Type: wire.Embed, ID: 3, Query: true, Texts: []string{"query", " "}})
	s.ask(wire.Request{Type: wire.Embed, ID: 4}) // answered though there is nothing to do
	s.ask(wire.Request{Type: wire.Embed, ID: 5, Texts: []string{"never"}})
	s.ask(wire.Request{Type: wire.Cancel, ID: 5})
	s.ask(wire.Request{Type: wire.Cancel, ID: 99}) // nobody; when it was read, the one before was obeyed
	s.model.step <- struct{}{}
	s.want(wire.Answer{Type: wire.Vector, ID: 1})
	s.begins("query") // before the rest of the first
	s.model.step <- struct{}{}
	s.want(wire.Answer{Type: wire.Vector, ID: 3})
	s.want(wire.Answer{Type: wire.Vector, ID: 3, Index: 1}) // the blank one, without the model
	s.want(wire.Answer{Type: wire.Done, ID: 3})
	for i, text := range []string{"b", "c"} {
		s.begins(text)
		s.model.step <- struct{}{}
		s.want(wire.Answer{Type: wire.Vector, ID: 1, Index: i + 1})
	}
	s.want(wire.Answer{Type: wire.Done, ID: 1})
	s.begins("later")
	s.model.step <- struct{}{}
	s.want(wire.Answer{Type: wire.Vector, ID: 2})
	s.want(wire.Answer{Type: wire.Done, ID: 2})
	s.want(wire.Answer{Type: wire.Done, ID: 4})
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

func TestFailedText(t *testing.T) {
	s := start(t)
	s.load()
	s.ask(wire.Request{Type: wire.Embed, ID: 1, Texts: []string{"fail", "never"}})
	s.begins("fail")
	s.ask(wire.Request{Type: wire.Embed, ID: 2, Texts: []string{"next"}})
	s.model.step <- struct{}{}
	s.want(wire.Answer{Type: wire.Failed, ID: 1, Message: "no way"})
	s.begins("next")
	s.model.step <- struct{}{}
	s.want(wire.Answer{Type: wire.Vector, ID: 2})
	s.want(wire.Answer{Type: wire.Done, ID: 2})
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// TestEndsAtOnce closes the input while the model is at work.
func TestEndsAtOnce(t *testing.T) {
	s := start(t)
	s.load()
	s.ask(wire.Request{Type: wire.Embed, ID: 1, Texts: []string{"long"}})
	s.begins("long")
	if err := s.end(); err != nil {
		t.Error(err)
	}
	close(s.model.step) // a process would have exited
}

func TestBadLoads(t *testing.T) {
	t.Run("no file", func(t *testing.T) {
		s := start(t)
		s.ask(wire.Request{Type: wire.Load, Model: filepath.Join(t.TempDir(), "none.gguf")})
		s.want(wire.Answer{Type: wire.Failed, Message: "none.gguf"})
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	t.Run("no room for a text", func(t *testing.T) {
		s := start(t)
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, gguftest.BERT{Context: 2}.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		s.ask(wire.Request{Type: wire.Load, Model: path})
		s.want(wire.Answer{Type: wire.Failed, Message: "no room"})
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	t.Run("twice", func(t *testing.T) {
		s := start(t)
		s.load()
		s.ask(wire.Request{Type: wire.Load, Model: "x"})
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "second model") {
			t.Errorf("got %v", err)
		}
		_ = s.in.Close()
	})
	t.Run("unknown request", func(t *testing.T) {
		s := start(t)
		s.ask(wire.Request{Type: "dance"})
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), `"dance"`) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTooManyWait(t *testing.T) {
	s := start(t)
	s.load()
	s.ask(wire.Request{Type: wire.Embed, ID: 1, Texts: []string{"first", "second"}})
	s.begins("first")
	for i := range uint64(maxWaiting - 1) {
		s.ask(wire.Request{Type: wire.Embed, ID: 2 + i, Texts: []string{"x"}})
	}
	s.ask(wire.Request{Type: wire.Embed, ID: 9999, Query: true, Texts: []string{"x"}})
	s.want(wire.Answer{Type: wire.Failed, ID: 9999, Message: "wait"})
	if err := s.end(); err != nil {
		t.Error(err)
	}
	close(s.model.step)
}
