package main

import (
	"context"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/liveview"
	"github.com/metamcp/metamcp/integration/tracelog"
)

// live shows a running host: as a screen, or as lines where there is no screen
// or lines are wanted.
func (f *traceFlags) live(ctx context.Context, c *common, out io.Writer, name string) error {
	conditions := f.conditions()
	filter, err := tracelog.ParseFilter(conditions)
	if err != nil {
		return usageError{err}
	}
	host, stateDir, err := c.traceHost(name)
	if err != nil {
		return err
	}
	if f.lasts > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, f.lasts)
		defer stop()
	}
	if f.lines || f.json || !drawable(out) {
		defer host.Close()
		return f.streamLines(ctx, c, out, host, filter)
	}
	for i, condition := range conditions {
		conditions[i] = strings.ReplaceAll(condition, " ", "?") // a blank would end it
	}
	environ := os.Environ()
	if f.color == "never" {
		environ = append(environ, "NO_COLOR=1")
	}
	return liveview.Run(ctx, liveview.Options{
		Name: host.Info().Name, Source: host, Again: again(stateDir, host.Info().Name), Filter: strings.Join(conditions, " "), ASCII: f.ascii,
		Input: os.Stdin, Output: out, Environ: environ,
	})
}

// again finds a host of that name once more.
func again(stateDir, name string) func(context.Context) (liveview.Source, error) {
	return func(context.Context) (liveview.Source, error) {
		info, err := control.Find(stateDir, name)
		if err != nil {
			return nil, err
		}
		client, err := control.Dial(info)
		if err != nil {
			return nil, err // and no client, which would be a Source that is not nil
		}
		return client, nil
	}
}

// drawable tells that out is a terminal whose cursor can be moved.
func drawable(out io.Writer) bool {
	f, ok := fileOf(out)
	return ok && term.IsTerminal(int(f.Fd())) && term.IsTerminal(int(os.Stdin.Fd())) && os.Getenv("TERM") != "dumb"
}
