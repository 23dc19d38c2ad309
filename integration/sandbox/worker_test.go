package sandbox_test

import (
	"os"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
	"github.com/metamcp/metamcp/integration/sandbox/worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "sandbox-worker" {
		os.Exit(worker.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

type ear struct {
	ready    chan sandbox.Status
	asked    chan *sandbox.Ask
	said     chan sandbox.Line
	finished chan *sandbox.Outcome
	gone     chan error
}

func newEar() *ear {
	return &ear{make(chan sandbox.Status, 1), make(chan *sandbox.Ask, 2000), make(chan sandbox.Line, 2000), make(chan *sandbox.Outcome, 1), make(chan error, 1)}
}

func (e *ear) Ready(s sandbox.Status)                { e.ready <- s }
func (e *ear) Asked(_ uint64, a *sandbox.Ask)        { e.asked <- a }
func (e *ear) Said(_ uint64, l sandbox.Line)         { e.said <- l }
func (e *ear) Finished(_ uint64, o *sandbox.Outcome) { e.finished <- o }
func (e *ear) Gone(err error)                        { e.gone <- err }

func TestOneAndOne(t *testing.T) {
	l, err := sandbox.NewLauncher(sandbox.Options{Path: os.Args[0], Args: []string{"sandbox-worker"}})
	if err != nil {
		t.Fatal(err)
	}
	e := newEar()
	w, err := l.Launch(e)
	if err != nil {
		t.Fatal(err)
	}
	t0 := time.Now()
	<-e.ready
	t.Log("ready", time.Since(t0))
	t0 = time.Now()
	if err := w.Run(1, &sandbox.Script{Code: "return 1+1"}); err != nil {
		t.Fatal(err)
	}
	select {
	case o := <-e.finished:
		if string(o.Value) != "2" {
			t.Errorf("value %s, failure %v", o.Value, o.Failure)
		}
		t.Log("value", time.Since(t0))
	case err := <-e.gone:
		t.Fatal(err)
	}
	w.Kill()
	t.Log(<-e.gone)
}
