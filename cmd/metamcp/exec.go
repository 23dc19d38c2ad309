package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
)

// maxScriptFile bounds what is read of a file, in bytes; the setting
// execute.codeKb bounds what is run.
const maxScriptFile = 16 << 20

func newExec(c *common) *cobra.Command {
	var timeout time.Duration
	var servers []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "exec FILE|- [-- ARG...]",
		Short: "Run a script that calls tools, in the sandbox of mcp_execute",
		Long: `Run JavaScript or TypeScript in the sandbox that mcp_execute has: no files, no
network, nothing but the tools of the configured servers. The script is the body
of an async function: await works everywhere, and return gives the value.

  servers.NAME.TOOL(args)       call a tool; its value, or a thrown Error with code
  servers.NAME.call(TOOL, args) the same for a tool of any name
  servers.list()                what can be reached
  discover(query)               find tools
  sleep(ms), console.log(…)
  args                          what stands behind --, an array of strings

The value is printed to standard output, a string as it is, anything else as
JSON; the console goes to standard error as it comes.

Exit status: 0 done, 1 the script failed or could not be run, or returned
before calls that it did not await were done, 2 wrong usage, 130 interrupted.`,
		Example: `  metamcp exec report.js
  metamcp exec report.js -- 2026-11 --verbose
  echo 'return await servers.demo.add({a: 19, b: 23})' | metamcp exec --servers demo -`,
		Args: args(oneFile),
		RunE: func(cmd *cobra.Command, given []string) error {
			code, err := readScript(cmd, given[0])
			if err != nil {
				return err
			}
			req := metamcp.RunRequest{Code: code, Timeout: timeout, Servers: servers, Args: given[1:], Language: languageOf(given[0])}
			for i, name := range req.Servers {
				req.Servers[i] = strings.TrimSpace(name)
			}
			if !cmd.Flags().Changed("servers") {
				req.Servers = nil
			}
			return withEngine(cmd, c, "whether a call that was under way took effect is unknown", func(ctx context.Context, e *metamcp.Engine) error {
				return exec(ctx, cmd, e, req, asJSON)
			})
		},
	}
	cmd.Flags().Var((*patience)(&timeout), "timeout", "how long the script may take: 30s, 2m, or milliseconds (at most, and by default: --execute-timeout)")
	cmd.Flags().StringSliceVar(&servers, "servers", nil, "the servers that the script may reach, with commas between (default: all)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print value, console, calls and failure as one JSON object")
	return cmd
}

func oneFile(cmd *cobra.Command, given []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(given) == 0 || dash == 0:
		return errors.New(`exec needs one FILE, or "-" for standard input`)
	case dash != 1 && len(given) > 1:
		return errors.New(`exec takes one FILE; arguments for the script stand behind "--"`)
	}
	return nil
}

func readScript(cmd *cobra.Command, name string) (string, error) {
	in, from := cmd.InOrStdin(), "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", unreadableScript(name, err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in, from = f, name
	} else {
		sayReading(cmd.ErrOrStderr(), in, "the script")
	}
	text, err := io.ReadAll(io.LimitReader(in, maxScriptFile+1))
	switch {
	case err != nil:
		return "", unreadableScript(from, err)
	case len(text) > maxScriptFile:
		return "", fmt.Errorf("the script in %s has more than %s", from, size(maxScriptFile))
	}
	return string(text), nil
}

// unreadableScript says of a script where it was to come from once, which the system's error
// does as well.
func unreadableScript(from string, err error) error {
	var path *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no script %s", printable(from))
	case errors.As(err, &path):
		err = path.Err
	}
	return fmt.Errorf("the script cannot be read from %s: %w", printable(from), err)
}

// languageOf goes by the name of the file.
func languageOf(name string) string {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".ts", ".mts", ".cts":
		return "typescript"
	case ".js", ".mjs", ".cjs":
		return "javascript"
	}
	return ""
}

func exec(ctx context.Context, cmd *cobra.Command, e *metamcp.Engine, req metamcp.RunRequest, asJSON bool) error {
	var r *metamcp.RunResult
	err := whileStarting(cmd, e, func(stderr io.Writer) (err error) {
		if !asJSON {
			req.Console = func(l metamcp.ConsoleLine) { fmt.Fprintln(stderr, l.Text) }
		}
		r, err = e.Run(ctx, req)
		return err
	})
	var failure *metamcp.Error
	if asJSON && errors.As(err, &failure) && ctx.Err() == nil {
		if err := printError(shown(cmd.OutOrStdout()), failure); err != nil {
			return err
		}
		return statusError(exitFailed)
	}
	if err != nil {
		return err
	}
	for _, note := range r.Notes {
		if rest, ok := strings.CutPrefix(note, "timeoutMs "); ok {
			note = "--timeout " + rest
		}
		fmt.Fprintln(shown(cmd.ErrOrStderr()), "metamcp:", note)
	}
	switch {
	case asJSON:
		err = printRun(shown(cmd.OutOrStdout()), r)
	case r.Failure != nil:
		printFailure(cmd, shown(cmd.ErrOrStderr()), r.Failure)
	default:
		err = printValue(shown(cmd.OutOrStdout()), r.Value)
	}
	if err == nil && (r.Failure != nil || r.NotAwaited > 0) {
		return statusError(exitFailed)
	}
	return err
}

// printError tells of a script that did not begin as printRun does of one that failed.
func printError(out io.Writer, failure *metamcp.Error) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		Error *metamcp.RunError `json:"error"`
	}{&metamcp.RunError{
		Code: failure.Code, Message: failure.Message, Hint: shellHint(failure.Hint, failure.Server, failure.Tool), Server: failure.Server, Retryable: failure.Retryable, Details: failure.Details,
	}})
}

// printValue prints a string as it is and anything else as JSON; undefined is
// nothing.
func printValue(out io.Writer, value json.RawMessage) error {
	if value == nil {
		return nil
	}
	var text string
	if value[0] == '"' && json.Unmarshal(value, &text) == nil {
		_, err := fmt.Fprintln(out, text)
		return err
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, value, "", "  ") != nil {
		pretty.Reset()
		pretty.Write(value)
	}
	_, err := fmt.Fprintln(out, pretty.String())
	return err
}

// printFailure says what failed and where in the script.
func printFailure(cmd *cobra.Command, out io.Writer, f *metamcp.RunFailure) {
	e := metamcp.NewRunError(f)
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf(" (line %d, column %d)", e.Line, e.Column)
	}
	fmt.Fprintf(out, "metamcp: %s%s: %s\n", e.Code, where, e.Message)
	for _, text := range []string{e.Excerpt, e.Stack} {
		if text != "" {
			fmt.Fprintln(out, "  "+strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  "))
		}
	}
	for _, d := range e.Details {
		if !strings.Contains(e.Message, d) {
			fmt.Fprintln(out, "  "+d)
		}
	}
	if e.Hint != "" {
		fmt.Fprintln(out, "hint:", withSources(cmd, shellHint(e.Hint, e.Server, e.Tool)))
	}
}

// printRun prints all that came out of a script.
func printRun(out io.Writer, r *metamcp.RunResult) error {
	type line struct {
		Level string `json:"level"`
		Text  string `json:"text"`
	}
	calls, totals := metamcp.TellCalls(r)
	whole := struct {
		Error      *metamcp.RunError   `json:"error,omitempty"`
		Value      json.RawMessage     `json:"value,omitempty"`
		Console    []line              `json:"console"`
		Dropped    int                 `json:"consoleDropped,omitempty"`
		Calls      []metamcp.CallLine  `json:"calls,omitempty"`
		CallTotals []metamcp.CallTotal `json:"callTotals,omitempty"`
		MoreCalls  int                 `json:"moreCalls,omitempty"`
		NotAwaited int                 `json:"notAwaited,omitempty"`
		Cancelled  int                 `json:"cancelled,omitempty"`
		Notes      []string            `json:"notes,omitempty"`
		Ms         int64               `json:"ms"`
	}{
		Value: r.Value, Console: make([]line, len(r.Console)), Dropped: r.Dropped, Calls: calls, CallTotals: totals, MoreCalls: r.MoreCalls,
		NotAwaited: r.NotAwaited, Cancelled: r.Cancelled, Notes: r.Notes, Ms: r.Took.Milliseconds(),
	}
	for i, l := range r.Console {
		whole.Console[i] = line(l)
	}
	if r.Failure != nil {
		whole.Error = metamcp.NewRunError(r.Failure)
		whole.Error.Hint = shellHint(whole.Error.Hint, whole.Error.Server, whole.Error.Tool)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(whole)
}
