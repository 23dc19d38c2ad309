package liveview

import (
	"context"
	"io"
	"iter"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/metamcp/metamcp/messages"
)

const (
	// Kept is how many records are kept, the newest; with a filter, also so
	// many of those that fit it.
	Kept = 10_000
	// FramesPerSecond bounds how often the screen is drawn.
	FramesPerSecond = 15
)

// Source is one attached host, such as a *control.Client. Its methods are
// called from several goroutines at a time.
type Source interface {
	// Status describes the host, with its actors if wanted.
	Status(ctx context.Context, actors bool) (*messages.HostStatus, error)
	// Trace gives the records as they come, until ctx or the host ends.
	Trace(ctx context.Context) iter.Seq2[messages.TraceRecord, error]
	// Close is called once, after the last of all other calls.
	Close()
}

// Options say what is shown and where.
type Options struct {
	// Name is the host's name.
	Name string
	// Source is the host, attached already. Run closes it.
	Source Source
	// Again attaches to a host of that name once Source has ended. It is called
	// from one goroutine, twice a second, until it returns no error.
	Again func(ctx context.Context) (Source, error)
	// Filter is what the filter is at first, as the user would type it.
	Filter string
	// ASCII draws with nothing beyond ASCII.
	ASCII bool
	// Input and Output are the terminal; nil: standard input and output.
	Input  io.Reader
	Output io.Writer
	// Environ are the variables that tell what the terminal can, among them TERM
	// and NO_COLOR; nil: those of the process.
	Environ []string
}

// Run shows a host until the user quits or ctx ends, both of which is no error,
// and leaves the terminal as it was. It returns when all its goroutines have
// ended.
func Run(ctx context.Context, o Options) error {
	m, err := newModel(o.Name, o.Filter, o.ASCII, time.Now())
	if err != nil {
		o.Source.Close()
		return err
	}
	settings := []tea.ProgramOption{tea.WithFPS(FramesPerSecond), tea.WithoutSignalHandler()}
	if o.Input != nil {
		settings = append(settings, tea.WithInput(o.Input))
	}
	if o.Output != nil {
		settings = append(settings, tea.WithOutput(o.Output))
	}
	if o.Environ != nil {
		settings = append(settings, tea.WithEnvironment(o.Environ))
	}
	program := tea.NewProgram(m, settings...)
	ctx, stop := context.WithCancel(ctx)
	in := &intake{}
	var others sync.WaitGroup
	others.Go(func() { (&feed{in: in, again: o.Again}).run(ctx, o.Source) })
	others.Go(func() {
		in.deliver(ctx, func(f frame) { program.Send(f) })
		program.Quit() // where nobody pressed q
	})
	_, err = program.Run()
	stop()
	others.Wait()
	return err
}
