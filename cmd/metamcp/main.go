// Command metamcp is one MCP server in front of very many.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/lossy"
	"github.com/metamcp/metamcp/integration/openfds"
	_ "github.com/metamcp/metamcp/integration/relay/early" // a client whose host runs goes no further
	"github.com/metamcp/metamcp/integration/spelling"
	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/messages"
)

// version is set by the build.
var version = "dev"

// Exit codes. What a tool itself reports as failed is told apart from a call
// that could not be made.
const (
	exitOK = iota
	exitFailed
	exitUsage
	exitToolError
	exitInterrupted = 130 // as shells count SIGINT
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == sandboxCommand {
		os.Exit(runSandboxWorker()) // commands, flags and logs would only cost it time and memory
	}
	const first = 3 // behind the three that every program has
	openfds.CloseOnExec(first)
	forgetNodeChannel()
	os.Exit(run())
}

// forgetNodeChannel takes out of the environment what names the channel of a parent that
// runs on Node.js: it is among the descriptors that no child has, and a program on Node.js
// that is told of one aborts without.
func forgetNodeChannel() {
	for _, name := range []string{"NODE_CHANNEL_FD", "NODE_CHANNEL_SERIALIZATION_MODE"} {
		_ = os.Unsetenv(name) // fails for no name that is one
	}
}

func run() int {
	lightStart()
	// Clients that start a host often read nothing of its stderr: a full pipe
	// must hold up neither the host nor its end.
	patient := lossy.NewWriter(os.Stderr)
	defer endLog(patient)
	var stderr io.Writer = patient
	if isTerminal(os.Stderr) {
		stderr = tame{patient}
	}
	cmd := newRoot(stderr)
	err := cmd.ExecuteContext(context.Background())
	var ended statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &ended):
		return int(ended)
	}
	fmt.Fprintln(stderr, "metamcp:", said(err))
	var e *metamcp.Error
	if errors.As(err, &e) {
		for _, d := range e.Details {
			if !strings.Contains(e.Message, d) {
				fmt.Fprintln(stderr, "  "+d)
			}
		}
		if e.Hint != "" {
			fmt.Fprintln(stderr, "hint:", withSources(cmd, shellHint(e.Hint, e.Server, e.Tool)))
		}
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// logPatience is how long the end of a log waits for who takes it.
const logPatience = time.Second

// endLog writes what a log still holds, and gives up where nobody takes it.
func endLog(log *lossy.Writer) {
	ctx, cancel := context.WithTimeout(context.Background(), logPatience)
	defer cancel()
	_ = log.Close(ctx) // it has said itself what was dropped, where somebody reads
}

// said is the text of an error in the words of the shell: what a host answers has its
// hint in it.
func said(err error) string {
	var answered *control.Error
	if errors.As(err, &answered) {
		return shellHint(err.Error(), "", "")
	}
	return err.Error()
}

// statusError ends the program with a status after everything was said.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError is a command line that is not understood.
type usageError struct{ error }

// flagProblem says of a flag's value what is expected, where the parser would quote Go.
func flagProblem(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	cause := bad.Unwrap()
	var expected string
	var number *strconv.NumError
	switch {
	case errors.As(cause, &number) && number.Func == "ParseBool":
		expected = "use true or false"
	case errors.As(cause, &number) && errors.Is(number, strconv.ErrRange):
		expected = "use a whole number of at most 18 digits"
	case errors.As(cause, &number):
		expected = "use a whole number"
	case bad.GetFlag().Value.Type() == "duration" && strings.HasPrefix(cause.Error(), "time: "):
		expected = "use a time such as 90s, 15m or 720h"
	default:
		return err
	}
	return errors.New(strings.TrimSuffix(bad.Error(), cause.Error()) + expected)
}

// args makes what is wrong with arguments a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		err := check(cmd, given)
		if err == nil {
			return nil
		}
		hint := "see " + cmd.CommandPath() + " --help"
		if cmd.HasParent() {
			hint = "usage: " + strings.TrimSuffix(cmd.UseLine(), " [flags]") + "; " + hint
		}
		switch {
		case len(given) == 0:
		case cmd.HasSubCommands():
			if near := nearestCommand(cmd, given[0]); near != "" {
				hint = "did you mean " + near + "?"
			}
		case cmd.LocalFlags().Lookup("server") != nil && cmd.Use == cmd.Name():
			hint = "did you mean --server " + messages.ShellWord(given[0]) + "?"
		}
		if f := cmd.Flag("trace"); f != nil && f.Changed && f.Value.String() == "stderr" {
			hint = "a file for the trace is given as --trace=FILE"
		}
		return usageError{fmt.Errorf("%w; %s", err, hint)}
	}
}

// nearestCommand is the command below cmd that a word may mean; "": none is near. One
// that begins with the word comes first.
func nearestCommand(cmd *cobra.Command, word string) string {
	near := cmd.SuggestionsFor(word)
	if len(near) == 0 {
		return ""
	}
	word = strings.ToLower(word)
	return slices.MinFunc(near, func(a, b string) int {
		if begins := strings.HasPrefix(a, word); begins != strings.HasPrefix(b, word) {
			if begins {
				return -1
			}
			return 1
		}
		return cmp.Compare(spelling.Distance(a, word), spelling.Distance(b, word))
	})
}

// noArgs refuses arguments; of a command that has others below it one would be their name.
func noArgs(cmd *cobra.Command, given []string) error {
	if len(given) == 0 || cmd.HasSubCommands() {
		return cobra.NoArgs(cmd, given)
	}
	return fmt.Errorf("%s takes no arguments, and was given %q", cmd.CommandPath(), given[0])
}

// oneArg, someArgs and maybeArg are checks for commands whose use names one kind of
// argument: one of it, at least one, at most one.
func oneArg(cmd *cobra.Command, given []string) error {
	return errors.Join(someArgs(cmd, given), maybeArg(cmd, given))
}

func someArgs(cmd *cobra.Command, given []string) error {
	if len(given) == 0 {
		return fmt.Errorf("%s needs %s", cmd.Name(), argName(cmd))
	}
	return nil
}

func maybeArg(cmd *cobra.Command, given []string) error {
	if len(given) > 1 {
		return fmt.Errorf("%s takes one %s, and not %d", cmd.Name(), argName(cmd), len(given))
	}
	return nil
}

// argName is what a command's use calls its first argument.
func argName(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.Use, " ")
	name, _, _ = strings.Cut(name, " ")
	return strings.Trim(name, "[].…")
}

// common are the flags of all commands that open an engine.
type common struct {
	files     []string
	name      string // of the host
	web       string // where its page is; "": nowhere
	http      string // where clients come over HTTP; "": over stdio
	stdio     bool   // over stdio as well
	borrow    bool   // servers of the clients' files, for this run
	guests    []config.Guest
	logLevel  string
	logFormat string // text or json
	overlay   *config.Overlay
	stderr    io.Writer // never blocks
	traceOut  io.Writer // of the trace for people; nil: stderr itself
	server    string    // the only one that the command is about; "": all
	once      config.Once
	change    []func(o *metamcp.Options)
}

// newRoot is the program. change has the last word on how engines are made.
func newRoot(stderr io.Writer, change ...func(o *metamcp.Options)) *cobra.Command {
	c := &common{stderr: stderr, change: change}
	root := &cobra.Command{
		Use:   "metamcp",
		Short: "One MCP server in front of very many",
		Long: `metamcp is one MCP server in front of very many: an LLM client sees a few tools
instead of hundreds of schemas, and the servers behind are started when needed.

Without a command it speaks MCP over standard input and output.`,
		Example: `  metamcp init                                   add metamcp to your LLM clients
  metamcp add playwright                         add a server
  metamcp discover "take a screenshot"           find tools
  metamcp call playwright browser_navigate '{"url": "https://example.com"}'`,
		Args:          args(noArgs),
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       buildVersion(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return attachOrServe(cmd.Context(), c) },

		PersistentPreRunE: refuseEmptyValues,
	}
	serveFlags(root, c)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", flagProblem(err), cmd.CommandPath())}
	})
	pf := root.PersistentFlags()
	pf.StringArrayVarP(&c.files, "config", "c", nil, "configuration `file`; may be repeated, later files win")
	pf.StringVar(&c.logLevel, "log-level", "warn", "what to log to stderr: debug, info, warn or error")
	pf.StringVar(&c.logFormat, "log-format", "text", "how to log: text, or json with one object a line")
	c.overlay = config.RegisterFlags(pf)
	hideSettings(pf)
	serve := newServe(c)
	showAttach(pf, root, serve)
	root.AddCommand(
		newSettings(pf), serve, newCall(c), newExec(c), newDiscover(c), newIndex(c), newModel(c), newBench(c),
		newHost(c), newTop(c), newStatus(c), newPs(c), newLogs(c), newTrace(c), newAudit(c), newDoctor(c), newInit(c), newImport(c),
		newAdd(c), newRemove(c), newSwitch(c, false), newSwitch(c, true), newList(c), newTest(c),
		newProvision(c), newRegistry(c), newTrust(c), newPins(c), newApprove(c), newSecrets(c), newToken(c), newAuth(c), newVersion(), newDemoServer(),
		newCompletion(), newMan(), newSandboxWorker(),
	)
	addCompletions(root, c)
	refuseStrayWords(root)
	checkHelpTopic(root)
	return root
}

// checkHelpTopic has the help of what is no command be wrong usage: cobra would show the
// help of the program, and call that a success. The command joins the others when one is
// run.
func checkHelpTopic(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.Args = args(func(_ *cobra.Command, given []string) error {
		if _, rest, err := root.Find(given); err != nil || len(rest) > 0 {
			return fmt.Errorf("there is no command %q", strings.Join(given, " "))
		}
		return nil
	})
	root.RemoveCommand(help)
}

// refuseStrayWords has each command that has subcommands look at its arguments, and
// say which subcommand may be meant. Of one that cannot be run cobra would show the
// help, whatever stands behind it, and call that a success.
func refuseStrayWords(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		return
	}
	cmd.SuggestionsMinimumDistance = 2
	if !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	for _, sub := range cmd.Commands() {
		refuseStrayWords(sub)
	}
}

// shownSettings are the settings that stand in every command's help; the
// others would drown them. That of attach stands in the help of those that attach.
var shownSettings = map[string]bool{"trace": true, "state-dir": true, "pool-size": true}

func hideSettings(pf *pflag.FlagSet) {
	for _, k := range config.Keys() {
		for _, name := range append(k.Aliases, k.Flag) {
			if f := pf.Lookup(name); f != nil {
				f.Hidden = !shownSettings[name]
			}
		}
	}
}

// showAttach has the help of the commands that attach to a host show the flag, which all
// take.
func showAttach(pf *pflag.FlagSet, attaching ...*cobra.Command) {
	for _, cmd := range attaching {
		shown := *pf.Lookup("attach")
		shown.Hidden = false
		cmd.Flags().AddFlag(&shown)
	}
}

// newSettings shows the flags that the other commands' help leaves out.
func newSettings(pf *pflag.FlagSet) *cobra.Command {
	return &cobra.Command{
		Use: "settings", Short: "Show the flags and variables of all settings", Args: args(noArgs),
		Example: `  metamcp settings | less`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := pflag.NewFlagSet("settings", pflag.ContinueOnError)
			pf.VisitAll(func(f *pflag.Flag) {
				shown := *f
				shown.Hidden = false
				all.AddFlag(&shown)
			})
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Every command takes these flags; a flag wins over its variable, and that over the file.\n\n%s", all.FlagUsages())
			return err
		},
	}
}

// logger logs to stderr, since stdout belongs to MCP or to a command's answer.
func (c *common) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %q: use debug, info, warn or error", c.logLevel)}
	}
	opts := &slog.HandlerOptions{Level: level}
	switch c.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(c.stderr, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.stderr, opts)), nil
	}
	return nil, usageError{fmt.Errorf("--log-format %q: use text or json", c.logFormat)}
}

func (c *common) sources() config.Sources {
	return config.Sources{Files: c.files, Environ: withoutManager(os.Environ()), Overlay: c.overlay, Guests: c.guests, Once: &c.once}
}

// open opens the engine; serving says that it stays, follows changes and has its
// tools' lists as soon as they are read.
func (c *common) open(ctx context.Context, serving bool) (*metamcp.Engine, error) {
	log, err := c.logger()
	if err != nil {
		return nil, err
	}
	telemetry.LogSDK(log)
	if c.server != "" {
		log = slog.New(oneServer{c.server, log.Handler()})
	}
	o := metamcp.Options{Sources: c.sources(), Log: log, TraceOutput: c.traceOut, Version: buildVersion(), Watch: serving, Brief: !serving, ListsLater: serving && c.http == ""}
	for _, change := range c.change {
		change(&o)
	}
	e, err := metamcp.Open(ctx, o)
	flags := config.Sources{Environ: []string{}, Overlay: c.overlay} // a filter in the file or the environment may wait for a trace
	if err == nil && e.Config().Settings.Trace == "" && config.Given(flags)["traceFilter"] != "" {
		log.Warn("nothing is traced, so the filter of the trace has no effect", "hint", "add --trace")
	}
	return e, err
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: args(noArgs),
		Example: `  metamcp version`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "metamcp", buildVersion())
			return err
		},
	}
}

// buildVersion is the version of the build, or of the module that a plain
// `go install` built.
func buildVersion() string {
	if version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
