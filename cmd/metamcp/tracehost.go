package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/tracelog"
	"github.com/metamcp/metamcp/integration/traceview"
	"github.com/metamcp/metamcp/messages"
)

// attached tells that a flag asks for a running host.
func (f *traceFlags) attached() bool { return f.follow || f.lines || f.lasts > 0 }

// traceHost connects with a running host, and returns the state folder that it
// was found in. A name that nothing has is one error for files and hosts.
func (c *common) traceHost(name string) (host *control.Client, stateDir string, err error) {
	stateDir, err = c.stateDir()
	if err != nil {
		return nil, "", err
	}
	info, err := control.Find(stateDir, name)
	var e *control.Error
	switch {
	case err == nil:
		host, err = control.Dial(info)
	case errors.As(err, &e) && e.Code == control.CodeSeveralHosts:
		err = usageError{err}
	case name != "" && errors.As(err, &e) && (e.Code == control.CodeHostNotFound || e.Code == control.CodeNoHost):
		err = neither(name, stateDir)
	}
	return host, stateDir, err
}

// neither says that a name is that of no trace and no host, and which hosts
// there are.
func neither(name, stateDir string) error {
	what := fmt.Sprintf("there is no file %s (nor one of %s.1 to %s.9)", name, name, name)
	if info, err := os.Stat(name); err == nil {
		what = name + " is a file, which is read without --follow, --lines and --for"
		if info.IsDir() {
			what = name + " is a folder and no trace"
		}
	}
	hosts, err := control.Hosts(stateDir)
	if err != nil {
		return err
	}
	running := "no host runs with the state folder " + stateDir
	if len(hosts) > 0 {
		list := make([]string, len(hosts))
		for i, h := range hosts {
			list[i] = fmt.Sprintf("%s (pid %d)", oneLine(h.Name), h.PID)
		}
		running = "these run: " + strings.Join(list, ", ")
	}
	return fmt.Errorf("%s, and no running host has that name or process id; %s", what, running)
}

// record collects what a host does until ctx or --for ends. A host that ends
// meanwhile ends it as well.
func (f *traceFlags) record(ctx context.Context, c *common, host *control.Client, limits traceview.Limits) (*traceview.Trace, error) {
	until := "until Ctrl-C"
	if f.lasts > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, f.lasts)
		defer stop()
		until = "for " + f.lasts.String() + "; Ctrl-C ends it earlier"
	}
	fmt.Fprintf(c.stderr, "recording %s (pid %d) %s\n", oneLine(host.Info().Name), host.Info().PID, until)
	b := traceview.NewBuilder(limits)
	for r, err := range host.Trace(ctx) {
		if err != nil {
			return b.Trace(), c.orNote(b.Trace(), err)
		}
		b.Add(r)
	}
	return b.Trace(), nil
}

// orNote makes an error a note where there is something to show all the same.
func (c *common) orNote(t *traceview.Trace, err error) error {
	if len(t.Requests) == 0 {
		return err
	}
	fmt.Fprintln(c.stderr, "note:", oneLine(err.Error()))
	return nil
}

// conditions are the filter's flags as conditions of a trace's filter.
func (f *traceFlags) conditions() []string {
	var list []string
	add := func(kind, value string) {
		if value != "" {
			list = append(list, kind+"="+value)
		}
	}
	add("server", f.filter.Server)
	actor := f.filter.Actor
	if actor != "" && !strings.ContainsAny(actor, "*?[") {
		actor = "*" + actor + "*" // a part of the path, as with a file
	}
	add("actor", actor)
	add("type", f.filter.Type)
	add("request", f.filter.Request)
	if f.filter.Errors {
		list = append(list, "errors")
	}
	return list
}

// checkLive refuses what --follow and --lines cannot do.
func (f *traceFlags) checkLive(given []string) error {
	switch {
	case len(given) > 1:
		return errors.New("--follow and --lines show all requests; show REQUEST goes with a file, or a host without them")
	case f.html != "" || f.chrome != "" || f.mermaid:
		return errors.New("--html, --chrome and --mermaid go with a file, or a host without --follow and --lines")
	case f.since != "" || f.until != "":
		return errors.New("--since and --until go with a file; a host tells what happens from now on")
	case first(given) == "-":
		return errors.New("--follow and --lines attach to a running HOST; standard input is none")
	}
	return f.check("")
}

// streamLines writes records as they come until ctx or the host ends.
func (f *traceFlags) streamLines(parent context.Context, c *common, out io.Writer, host *control.Client, filter *tracelog.Filter) error {
	ctx, stop := context.WithCancel(parent)
	defer stop()
	w := recordWriter(tracelog.NewText(out, f.style(out).Color))
	if f.json {
		w = tracelog.NewJSON(shown(out))
	}
	type item struct {
		record messages.TraceRecord
		err    error
	}
	// A buffer between the two lets a burst be written in one piece.
	const buffered = 1024
	items := make(chan item, buffered)
	go func() { // ends with ctx, which the caller's end cancels; the receiver waits for the channel's end
		defer close(items)
		for r, err := range host.Trace(ctx) {
			select {
			case items <- item{r, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var failed error
	for it := range items {
		if failed != nil {
			continue // until the other end has seen it
		}
		switch {
		case it.err != nil:
			failed = it.err
		case filter.Wants(&it.record):
			failed = w.WriteRecord(&it.record)
		}
		if len(items) == 0 && failed == nil {
			failed = w.Flush()
		}
		if failed != nil {
			stop()
		}
	}
	if failed == nil && ctx.Err() == nil {
		fmt.Fprintf(c.stderr, "the host %s ended\n", oneLine(host.Info().Name))
	}
	return errors.Join(failed, w.Flush())
}

// recordWriter is a writer of a trace.
type recordWriter interface {
	WriteRecord(r *messages.TraceRecord) error
	Flush() error
}
