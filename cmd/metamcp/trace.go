package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/traceview"
)

// traceFlags are the flags of the trace command.
type traceFlags struct {
	filter       traceview.Filter
	since, until string
	html, chrome string
	mermaid      bool
	json         bool
	ascii        bool
	color        string
	records      int
	width        int

	// These attach to a running host.
	follow, lines bool
	lasts         time.Duration
}

func newTrace(c *common) *cobra.Command {
	f := &traceFlags{}
	cmd := &cobra.Command{
		Use:   "trace FILE|HOST [show REQUEST]",
		Short: "Show a trace, or a running host live: requests, sequence diagrams, messages",
		Long: `Show a trace that --trace=FILE.jsonl wrote, or what a running host does. Rotated
files (FILE.1 to FILE.9, also .gz) are read with FILE; "-" reads standard input.
HOST is a name or process id, as metamcp ps lists them; a file of that name counts
first. With --follow, --lines or --for it may be left out where one host runs.

Without more it lists the requests; of a host, those that come until Ctrl-C or
for the time of --for. "show REQUEST" draws one as a sequence diagram, and "show 0"
the host's own work. Where a file has several runs of hosts, REQUEST is RUN/NUMBER, as
the list has it; a number alone means the newest run that has it. --html and --chrome
write all requests that fit, or the one that is shown, to a file; "-" is standard
output. Of the files that are there they replace their own earlier ones alone.

--follow shows actors, pool and messages of a host in the terminal while they
change; "?" there lists the keys. --lines writes every record as a line instead,
and so does --follow where there is no terminal; with --json, as JSON.

Exit status: 0 done, 1 the trace cannot be read, the host cannot be reached, or
there is no such request, 2 wrong usage.`,
		Example: `  metamcp trace --follow
  metamcp trace work --for 10s --errors
  metamcp trace work --lines --server github
  metamcp trace run.jsonl --errors
  metamcp trace run.jsonl show 7
  metamcp trace run.jsonl --server github --html run.html
  metamcp trace run.jsonl --chrome run.json   # open it at ui.perfetto.dev
  metamcp trace run.jsonl show 7 --mermaid`,
		Args: args(traceArgs),
		RunE: func(cmd *cobra.Command, given []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			out := cmd.OutOrStdout()
			if f.follow || f.lines {
				if err := f.checkLive(given); err != nil {
					return usageError{err}
				}
				return f.live(ctx, c, out, first(given))
			}
			if len(given) == 0 && !f.attached() {
				return usageError{errors.New("trace needs a FILE or a HOST; see metamcp trace --help")}
			}
			show := ""
			if len(given) == 3 {
				show = given[2]
			}
			if err := errors.Join(f.check(show), notOver(first(given), f.html, f.chrome)); err != nil {
				return usageError{err}
			}
			// A recording may take an hour, and could not be written.
			for _, to := range f.outputs() {
				if err := to.check(); err != nil {
					return usageError{err}
				}
			}
			t, err := f.openTrace(ctx, c, cmd.InOrStdin(), first(given))
			if err != nil {
				return err
			}
			return f.run(out, c.stderr, t, show)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.html, "html", "", "write one page of HTML to this `file`")
	fl.StringVar(&f.chrome, "chrome", "", "write events for Perfetto or chrome://tracing to this `file`")
	fl.BoolVarP(&f.follow, "follow", "f", false, "watch a running host in the terminal until q")
	fl.BoolVar(&f.lines, "lines", false, "write what a running host does as lines until Ctrl-C")
	fl.DurationVar(&f.lasts, "for", 0, "of a running host: for so long, such as 10s (default: until Ctrl-C)")
	fl.BoolVar(&f.mermaid, "mermaid", false, "with show: print a sequence diagram of Mermaid")
	fl.BoolVar(&f.json, "json", false, "print JSON; with show, all records of the request; with --lines, one record a line")
	fl.StringVar(&f.filter.Server, "server", "", "only requests of this server; * stands for anything")
	fl.StringVar(&f.filter.Actor, "actor", "", "only what has to do with this actor: a part of its path, or a pattern with *")
	fl.StringVar(&f.filter.Type, "type", "", "only messages of this type, or events of this kind; * stands for anything")
	fl.StringVar(&f.filter.Request, "request", "", "only this request")
	fl.BoolVar(&f.filter.Errors, "errors", false, "only requests that failed")
	fl.StringVar(&f.since, "since", "", "only requests since this `time`: 5m (before the trace's end), 15:04:05, or 2006-01-02T15:04:05Z")
	fl.StringVar(&f.until, "until", "", "only requests until this `time`")
	fl.BoolVar(&f.ascii, "ascii", false, "draw with ASCII alone")
	fl.StringVar(&f.color, "color", "auto", "colours: auto, always or never")
	fl.IntVar(&f.width, "width", 0, "`columns` of the output (default: the terminal's)")
	fl.IntVar(&f.records, "max-records", 0, "keep at most so many `records`, the newest (default 2000000)")
	return cmd
}

func traceArgs(_ *cobra.Command, given []string) error {
	switch {
	case len(given) <= 1, len(given) == 3 && given[1] == "show":
		return nil
	case given[1] == "show" && len(given) == 2:
		return errors.New("show needs the number of a REQUEST; without show all are listed")
	}
	return errors.New("trace takes FILE or HOST, or FILE show REQUEST")
}

// openTrace reads the trace that an argument names, or records one from the
// host of that name until ctx or --for ends.
func (f *traceFlags) openTrace(ctx context.Context, c *common, stdin io.Reader, name string) (*traceview.Trace, error) {
	limits := traceview.Limits{Records: f.records}
	if name == "-" {
		if f.attached() {
			return nil, usageError{errors.New("--for records from a running HOST; standard input is none")}
		}
		sayReading(c.stderr, stdin, "the trace")
		return traceview.Read(stdin, limits)
	}
	if !f.attached() {
		t, err := readTrace(name, limits)
		if !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	host, _, err := c.traceHost(name)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	return f.record(ctx, c, host, limits)
}

// readTrace reads a file. A folder is no file: a host may have its name.
func readTrace(name string, limits traceview.Limits) (*traceview.Trace, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fs.ErrNotExist
	}
	return traceview.ReadFiles(name, limits)
}

// notOver refuses to write over the trace itself.
func notOver(trace string, outputs ...string) error {
	from, err := os.Stat(trace)
	if err != nil {
		return nil //nolint:nilerr // it is "-", or only rotated files are left
	}
	for _, out := range outputs {
		if to, err := os.Stat(out); err == nil && os.SameFile(from, to) {
			return fmt.Errorf("%s is the trace itself; write to another file", out)
		}
	}
	return nil
}

// run shows a trace: all requests that fit, or the one named show.
func (f *traceFlags) run(out, stderr io.Writer, t *traceview.Trace, show string) error {
	if err := f.times(t); err != nil {
		return usageError{err}
	}
	for _, note := range t.Notes {
		fmt.Fprintln(stderr, "note:", note)
	}
	requests, err := f.choose(t, show)
	if err != nil {
		return err
	}
	if n := t.Alike(show); n > 1 {
		fmt.Fprintf(stderr, "note: %s is in %d runs; this is %s\n", show, n, requests[0].Name)
	}
	if f.html != "" || f.chrome != "" {
		return f.write(out, t, requests)
	}
	style := f.style(out)
	switch {
	case f.json:
		return traceview.WriteJSON(shown(out), requests, show != "", t.Notes)
	case f.mermaid:
		return traceview.WriteMermaid(out, requests[0])
	case show != "":
		return traceview.WriteSequence(out, requests[0], style)
	case len(t.Requests) == 0:
		fmt.Fprintln(stderr, "no request is in the trace")
		return nil
	case len(requests) == 0:
		fmt.Fprintf(stderr, "none of the %d requests of the trace fits\n", len(t.Requests))
		return nil
	}
	return traceview.WriteList(out, requests, style)
}

// page and events are the files that --html and --chrome name.
func (f *traceFlags) page() outFile {
	return outFile{path: f.html, kind: "a page of metamcp trace", ours: traceview.IsHTML}
}

func (f *traceFlags) events() outFile {
	return outFile{path: f.chrome, kind: "events of metamcp trace --chrome", ours: traceview.IsChrome}
}

// outputs are those of the two that are files.
func (f *traceFlags) outputs() (files []outFile) {
	for _, o := range []outFile{f.page(), f.events()} {
		if o.path != "" && o.path != "-" {
			files = append(files, o)
		}
	}
	return files
}

// write writes the page and the events, to out where they are named "-".
func (f *traceFlags) write(out io.Writer, t *traceview.Trace, requests []*traceview.Request) error {
	to := func(o outFile, write func(io.Writer, *traceview.Trace, []*traceview.Request) error) error {
		switch o.path {
		case "":
			return nil
		case "-":
			return write(out, t, requests)
		}
		return o.write(func(w io.Writer) error { return write(w, t, requests) })
	}
	if err := to(f.page(), traceview.WriteHTML); err != nil {
		return err
	}
	return to(f.events(), traceview.WriteChrome)
}

func (f *traceFlags) check(show string) error {
	switch {
	case f.mermaid && show == "":
		return errors.New("--mermaid draws one request: metamcp trace FILE show REQUEST --mermaid")
	case f.html == "-" && f.chrome == "-":
		return errors.New("only one of --html and --chrome can go to standard output")
	case f.html != "" && f.html == f.chrome:
		return errors.New("--html and --chrome cannot go to the same place")
	case f.mermaid && f.json:
		return errors.New("--mermaid and --json exclude each other")
	case (f.mermaid || f.json) && (f.html != "" || f.chrome != ""):
		return errors.New("--html and --chrome write files instead of what --mermaid and --json print")
	case f.color != "auto" && f.color != "always" && f.color != "never":
		return fmt.Errorf("--color is auto, always or never, not %q", f.color)
	case f.records < 0 || f.width < 0 || f.lasts < 0:
		return errors.New("--max-records, --width and --for take a positive number")
	}
	return nil
}

func (f *traceFlags) times(t *traceview.Trace) (err error) {
	if f.since != "" {
		if f.filter.Since, err = t.ParseTime(f.since); err != nil {
			return fmt.Errorf("--since: %w", err)
		}
	}
	if f.until != "" {
		if f.filter.Until, err = t.ParseTime(f.until); err != nil {
			return fmt.Errorf("--until: %w", err)
		}
	}
	return nil
}

// choose returns the requests that are shown: exactly one with show.
func (f *traceFlags) choose(t *traceview.Trace, show string) ([]*traceview.Request, error) {
	if show != "" {
		r := t.Find(show)
		if r == nil {
			return nil, fmt.Errorf("the trace has no request %q; it has %s", show, spanOf(t))
		}
		return []*traceview.Request{f.filter.Narrow(r)}, nil
	}
	requests := t.Select(f.filter)
	if f.html == "" && f.chrome == "" {
		return requests, nil
	}
	for i, r := range requests {
		requests[i] = f.filter.Narrow(r)
	}
	if f.filter == (traceview.Filter{}) {
		requests = append(requests, t.Own...)
	}
	return requests, nil
}

// spanOf says which requests a trace has.
func spanOf(t *traceview.Trace) string {
	switch n := len(t.Requests); n {
	case 0:
		return "none"
	case 1:
		return "only " + t.Requests[0].Name
	default:
		return fmt.Sprintf("%d, from %s to %s", n, t.Requests[0].Name, t.Requests[n-1].Name)
	}
}

func (f *traceFlags) style(out io.Writer) traceview.Style {
	terminal := terminalWidth(out)
	s := traceview.Style{Width: terminal, ASCII: f.ascii}
	if f.width > 0 {
		const widest = 1000 // of a diagram that somebody reads
		s.Width = min(f.width, widest)
	}
	s.Color = f.color == "always" || f.color == "auto" && terminal > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}
