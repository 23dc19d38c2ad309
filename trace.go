package metamcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/tracelog"
	"github.com/metamcp/metamcp/messages"
)

// traceOutput is where the trace of the configuration goes.
type traceOutput struct {
	watcher *actors.Watcher
	file    *tracelog.File // nil for people
}

// startTrace makes every message between actors visible where that was asked
// for: "stderr", or the path of a JSONL file.
func (e *Engine) startTrace(st *config.Settings) error {
	e.core.Trace().ShowPayloads(st.TracePayloads)
	e.core.Trace().Broke = func(err error, resumes bool) {
		if resumes {
			e.log.Error("nothing more is traced until the file can be written again, which is tried every few seconds", "error", err)
			return
		}
		e.log.Error("the trace ends here; a restart of metamcp begins another", "error", err)
	}
	e.core.Trace().Resumed = func(after time.Duration) {
		e.log.Info("the trace goes on", "after", after)
	}
	filter, err := tracelog.ParseFilter(st.TraceFilter)
	if err != nil {
		return &Error{Code: messages.CodeConfiguration, Message: err.Error(), Cause: err, Hint: "Several conditions are separated by commas."}
	}
	switch st.Trace {
	case "":
		return nil
	case "stderr":
		text := tracelog.NewText(os.Stderr, inColour(os.Stderr))
		if e.opts.TraceOutput != nil {
			text = tracelog.NewText(e.opts.TraceOutput, false)
		}
		e.trace = &traceOutput{watcher: e.core.Trace().Attach(text, filter.Func())}
		return nil
	}
	f, err := tracelog.OpenFile(st.Trace, e.identity(), 0, childlog.OpenAppend)
	if err != nil {
		return &Error{Code: messages.CodeConfiguration, Cause: err, Message: "the trace cannot be written: " + err.Error(), Hint: "Choose another file with --trace=FILE; a pipe must have a reader."}
	}
	e.trace = &traceOutput{watcher: e.core.Trace().Attach(f, filter.Func()), file: f}
	return nil
}

// identity names this host in traces.
func (e *Engine) identity() string {
	return fmt.Sprintf("metamcp %s, pid %d", e.opts.Version, os.Getpid())
}

// stopTrace writes the rest of the trace; the actors have stopped.
func (e *Engine) stopTrace(ctx context.Context) error {
	if e.trace == nil {
		return nil
	}
	const enough = 2 * time.Second // for what is buffered, where somebody reads
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	err := e.trace.watcher.Close(ctx)
	if e.trace.file == nil || ctx.Err() != nil {
		return err // whoever hangs in a write has the file
	}
	return errors.Join(err, e.trace.file.Close())
}

// inColour says whether what is written to f may have colours: a terminal shows it that
// has them, and nobody asked for none.
func inColour(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
