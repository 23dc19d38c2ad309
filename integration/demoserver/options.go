package demoserver

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// Era says which generations of the protocol the server speaks.
type Era string

// The eras. A server of one era refuses the other's opening request.
const (
	EraLegacy Era = "legacy"
	EraModern Era = "modern"
	EraBoth   Era = "both"
)

// Limits that the flags are checked against.
const (
	maxExtraTools  = 100_000
	defaultMaxLife = 15 * time.Minute
)

// Options is what one run of the server is to be like. Make it with
// [ParseArgs] or start from [DefaultOptions]; the zero value lives for no time.
type Options struct {
	// Name is what the server calls itself.
	Name string
	Era  Era
	// StartDelay passes before the first request is read.
	StartDelay time.Duration
	// MaxLife ends the process with status 3, whatever else is asked for, so
	// that a stubborn server never outlives a test run for long.
	MaxLife time.Duration

	// IgnoreTerm leaves SIGTERM, SIGINT and SIGHUP without effect.
	IgnoreTerm bool
	// IgnoreEOF stays alive when standard input ends.
	IgnoreEOF bool
	// Fork starts a helper process that shares stdout and stderr and stays in
	// the server's process group; ForkSetsid puts it in a session of its own.
	// The helper ignores the end of its input, and signals where IgnoreTerm
	// is set; it ends after MaxLife.
	Fork       bool
	ForkSetsid bool
	// ExitAtStart ends the process with this status before anything is read,
	// after ExitText was written to stderr. Negative: it does not.
	ExitAtStart int
	ExitText    string
	// StderrLines are written to stderr before anything is read.
	StderrLines int
	// Silent reads everything and answers nothing.
	Silent bool
	// Garbage writes lines that are no JSON-RPC to stdout, at the start and
	// before every answer.
	Garbage bool
	// HalfAnswer has the tool crash write the beginning of its answer first.
	HalfAnswer bool
	// DieOnDiscover exits with status 1 at server/discover, as some old SDKs
	// do; SilentOnDiscover never answers it, as others do.
	DieOnDiscover    bool
	SilentOnDiscover bool
	// Strict refuses requests that come before the handshake is complete.
	Strict bool

	// PageSize is the number of tools on one page of tools/list. 0: all.
	PageSize int
	// RepeatCursor answers every tools/list with the first page and the same
	// cursor; EmptyCursor ends a listing with "nextCursor": "".
	RepeatCursor bool
	EmptyCursor  bool
	// Lists is how many times tools/list is answered; it is refused from then on. 0: always.
	Lists int
	// Tools is the number of generated tools beyond the built-in ones.
	Tools int
	// OddTools adds definitions that a strict reader stumbles over.
	OddTools bool
	// HiddenText adds a tool whose texts hold what a person does not see.
	HiddenText bool

	// Content adds resources, a template, prompts, completion, and the tools that
	// change them. Resources is how many there are beyond a few; with SameURIs they
	// are called as those of any other server with it; LongURI adds one whose URI
	// has a megabyte; EndlessCursors gives each page of the list another one.
	Content        bool
	Resources      int
	SameURIs       bool
	LongURI        bool
	EndlessCursors bool

	// ToolsFile is a JSON object of definitions by the tool's name, read at each
	// tools/list where it is there: they are listed in the place of the own ones,
	// further ones at the end, and with null in their place tools are not listed.
	ToolsFile string

	// CallsFile gets one line per executed tool call, CancelsFile one per
	// cancelled call, both as a [Record] in JSON. PIDFile gets one line per
	// process, "PID server" or "PID helper". All are appended to.
	CallsFile   string
	CancelsFile string
	PIDFile     string

	// Self is the command that runs the demo server again, for the helper
	// process. nil: this executable with the argument demo-server.
	Self []string
	// Stderr is where diagnostics go. nil: the process's.
	Stderr io.Writer

	helper bool
}

// DefaultOptions returns a well-behaved server of both eras.
func DefaultOptions() Options {
	return Options{Name: "demo", Era: EraBoth, MaxLife: defaultMaxLife, ExitAtStart: -1}
}

// ParseArgs reads the arguments behind `metamcp demo-server`. Usage and
// complaints go to stderr; the error is [flag.ErrHelp] where help was asked
// for, and otherwise says which argument is wrong.
func ParseArgs(args []string, stderr io.Writer) (Options, error) {
	o := DefaultOptions()
	fs := flag.NewFlagSet("metamcp demo-server", flag.ContinueOnError)
	fs.SetOutput(stderr)
	o.register(fs)
	fs.Usage = func() {
		_, _ = fmt.Fprint(stderr, "A small MCP server over standard input and output, which misbehaves where flags tell it to.\n\nIts tools:\n")
		for _, t := range builtin() {
			_, _ = fmt.Fprintf(stderr, "  %-12s %s\n", t.name, t.description)
		}
		_, _ = fmt.Fprint(stderr, "\nFlags:\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return Options{}, err
	}
	if fs.NArg() > 0 {
		return Options{}, fmt.Errorf("demo-server takes flags only, not %q", fs.Arg(0))
	}
	if err := o.check(); err != nil {
		return Options{}, err
	}
	return o, nil
}

func (o *Options) register(fs *flag.FlagSet) {
	fs.StringVar(&o.Name, "name", o.Name, "what the server calls itself")
	fs.StringVar((*string)(&o.Era), "era", string(o.Era), "protocol generations to speak: legacy, modern or both")
	fs.DurationVar(&o.StartDelay, "start-delay", 0, "wait before reading the first request")
	fs.DurationVar(&o.MaxLife, "max-life", o.MaxLife, "exit after this long, whatever happens")
	fs.BoolVar(&o.IgnoreTerm, "ignore-term", false, "ignore SIGTERM, SIGINT and SIGHUP")
	fs.BoolVar(&o.IgnoreEOF, "ignore-eof", false, "stay alive when standard input ends")
	fs.BoolVar(&o.Fork, "fork", false, "start a helper process that shares stdout")
	fs.BoolVar(&o.ForkSetsid, "fork-setsid", false, "start such a helper in a session of its own")
	fs.IntVar(&o.ExitAtStart, "exit-at-start", o.ExitAtStart, "exit with this status at once")
	fs.StringVar(&o.ExitText, "exit-text", "demo-server: told to exit at start", "what to say on stderr before that")
	fs.IntVar(&o.StderrLines, "stderr-lines", 0, "write this many lines to stderr at start")
	fs.BoolVar(&o.Silent, "silent", false, "never answer anything")
	fs.BoolVar(&o.Garbage, "garbage", false, "write noise to stdout between the answers")
	fs.BoolVar(&o.HalfAnswer, "half-answer", false, "have the tool crash write the beginning of its answer first")
	fs.BoolVar(&o.DieOnDiscover, "die-on-discover", false, "exit when asked server/discover")
	fs.BoolVar(&o.SilentOnDiscover, "silent-on-discover", false, "never answer server/discover")
	fs.BoolVar(&o.Strict, "strict", false, "refuse requests before the handshake is complete")
	fs.IntVar(&o.PageSize, "page-size", 0, "tools per page of tools/list; 0: all")
	fs.BoolVar(&o.RepeatCursor, "repeat-cursor", false, "answer tools/list with the same cursor for ever")
	fs.BoolVar(&o.EmptyCursor, "empty-cursor", false, "end a listing with an empty cursor")
	fs.IntVar(&o.Lists, "lists", 0, "answer tools/list so many times and refuse it from then on; 0: always")
	fs.IntVar(&o.Tools, "tools", 0, "generated tools beyond the built-in ones")
	fs.BoolVar(&o.OddTools, "odd-tools", false, "list some definitions that strict readers stumble over")
	fs.BoolVar(&o.HiddenText, "hidden-text", false, "list a tool whose texts hold invisible characters")
	fs.BoolVar(&o.Content, "content", false, "have resources, prompts and completion")
	fs.IntVar(&o.Resources, "resources", 0, "with --content: generated resources beyond the built-in ones")
	fs.BoolVar(&o.SameURIs, "same-uris", false, "with --content: call resources as every server with this flag does")
	fs.BoolVar(&o.LongURI, "long-uri", false, "with --content: list a resource whose URI has a megabyte")
	fs.BoolVar(&o.EndlessCursors, "endless-cursors", false, "with --content: have always one more page of resources")
	fs.StringVar(&o.ToolsFile, "tools-file", "", "list the definitions of this JSON file, {NAME: DEFINITION or null}, in the place of the own ones")
	fs.StringVar(&o.CallsFile, "calls-file", "", "append one line per executed call to this file")
	fs.StringVar(&o.CancelsFile, "cancels-file", "", "append one line per cancelled call to this file")
	fs.StringVar(&o.PIDFile, "pid-file", "", "append one line per process to this file")
	fs.BoolVar(&o.helper, "helper", false, "be the helper process of --fork")
	fs.Func("tag", "ignored; marks a process in the process table", func(string) error { return nil })
}

func (o *Options) check() error {
	switch o.Era {
	case EraLegacy, EraModern, EraBoth:
	default:
		return fmt.Errorf("--era is legacy, modern or both, not %q", o.Era)
	}
	if o.MaxLife <= 0 {
		return errors.New("--max-life must be above zero")
	}
	if o.Tools < 0 || o.Tools > maxExtraTools {
		return fmt.Errorf("--tools must be between 0 and %d, not %d", maxExtraTools, o.Tools)
	}
	if o.Resources < 0 || o.Resources > maxExtraTools {
		return fmt.Errorf("--resources must be between 0 and %d, not %d", maxExtraTools, o.Resources)
	}
	if o.PageSize < 0 || o.Lists < 0 || o.StderrLines < 0 || o.StartDelay < 0 {
		return errors.New("--page-size, --lists, --stderr-lines and --start-delay must not be negative")
	}
	return nil
}

func (o *Options) stderr() io.Writer {
	if o.Stderr != nil {
		return o.Stderr
	}
	return os.Stderr
}

func (o *Options) speaks(e Era) bool { return o.Era == EraBoth || o.Era == e }
