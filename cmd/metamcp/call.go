package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/messages"
)

func newCall(c *common) *cobra.Command {
	var timeout time.Duration
	var raw, progress bool
	cmd := &cobra.Command{
		Use:   "call SERVER TOOL [JSON]",
		Short: "Call one tool and print its result",
		Long: `Call one tool of a configured server. The arguments are one JSON object; "-"
reads it from standard input. Text is printed as it is, and in place of images
and other data a line that says what they are; --json prints the whole result.

Exit status: 0 done, 1 the call could not be made, 2 wrong usage, 3 the tool
itself reports a failure, 130 interrupted.`,
		Example: `  metamcp call everything echo '{"message": "hello"}'
  metamcp call github list_issues - --json < arguments.json`,
		Args: args(serverAndTool),
		RunE: func(cmd *cobra.Command, given []string) error {
			var input json.RawMessage
			if len(given) == 3 {
				input = json.RawMessage(given[2])
				if given[2] == "-" {
					sayReading(cmd.ErrOrStderr(), cmd.InOrStdin(), "the arguments, one JSON object,")
					text, err := io.ReadAll(cmd.InOrStdin())
					if err != nil {
						return fmt.Errorf("read the arguments from standard input: %w", err)
					}
					input = text
				}
			}
			c.about(given[0])
			return withEngine(cmd, c, "whether the call took effect is unknown", func(ctx context.Context, e *metamcp.Engine) error {
				return call(ctx, cmd, e, given[0], given[1], input, timeout, raw, progress)
			})
		},
	}
	cmd.Flags().Var((*patience)(&timeout), "timeout", "how long the call may go without an answer or progress: 30s, 2m, or milliseconds (default: the server's timeoutMs; its maxTimeoutMs bounds the whole call)")
	cmd.Flags().BoolVar(&raw, "json", false, "print the whole result object")
	cmd.Flags().BoolVar(&progress, "progress", false, "print the tool's progress to stderr")
	return cmd
}

func serverAndTool(_ *cobra.Command, given []string) error {
	switch {
	case len(given) < 2:
		return errors.New("call needs a SERVER and a TOOL")
	case len(given) > 3:
		return errors.New("call takes SERVER, TOOL and one JSON object; quote the JSON for the shell")
	}
	return nil
}

// patience is a duration flag that takes milliseconds too, as all settings do.
type patience time.Duration

// String implements pflag.Value.
func (p *patience) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}

// Type implements pflag.Value.
func (p *patience) Type() string { return "duration" }

// Set implements pflag.Value.
func (p *patience) Set(text string) error {
	d, err := time.ParseDuration(text)
	if ms, numErr := strconv.ParseUint(text, 10, 31); numErr == nil {
		d, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil || d <= 0 {
		return errors.New("use a time such as 30s or 2m, or milliseconds")
	}
	*p = patience(d)
	return nil
}

func call(ctx context.Context, cmd *cobra.Command, e *metamcp.Engine, server, tool string, args json.RawMessage, timeout time.Duration, raw, progress bool) error {
	var result *metamcp.Result
	err := whileStarting(cmd, e, func(stderr io.Writer) error {
		for u, err := range e.Stream(ctx, server, tool, args, metamcp.ExecuteOptions{Timeout: timeout}) {
			if err != nil {
				return err
			}
			if u.Progress != nil && progress {
				fmt.Fprintln(stderr, "progress:", string(u.Progress))
			}
			result = u.Result
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := printResult(shown(cmd.OutOrStdout()), result, raw); err != nil {
		return err
	}
	if result.IsError {
		return statusError(exitToolError)
	}
	return nil
}

// withEngine opens an engine for one command and ends it, with all its
// children, whatever happens. A signal cancels the command, and interrupted is what is to
// be said then.
func withEngine(cmd *cobra.Command, c *common, interrupted string, do func(ctx context.Context, e *metamcp.Engine) error) error {
	if f := cmd.Flag("attach"); f.Changed && f.Value.String() == "require" {
		return usageError{fmt.Errorf("--attach require is for clients: %s starts servers of its own, whether a host runs or not", cmd.CommandPath())}
	}
	return withEngineUntil(cmd.Context(), c, interrupted, func(ctx context.Context, e *metamcp.Engine) error {
		if e.Config().Settings.Attach == "require" { // by a variable or a file, which clients read too
			e.Log().Warn("attach is set to require, which is for clients: this command starts servers of its own, whether a host runs or not")
		}
		return do(ctx, e)
	})
}

// withFiles says of a server that is not known which configuration was read: a
// project's hides the user's.
func withFiles(err error, e *metamcp.Engine) error {
	var failure *metamcp.Error
	if !errors.As(err, &failure) || failure.Code != messages.CodeServerNotFound {
		return err
	}
	told := *failure
	switch files := e.Config().Files; len(files) {
	case 0:
		told.Message += "; no configuration file was found"
	default:
		told.Message += "; the configuration is " + strings.Join(files, ", ")
	}
	return &told
}

// withEngineUntil is withEngine for a command that --attach may not concern.
func withEngineUntil(parent context.Context, c *common, interrupted string, do func(ctx context.Context, e *metamcp.Engine) error) error {
	ctx, stop := untilInterrupted(parent)
	defer stop()
	e, err := c.open(ctx, false)
	if err != nil {
		return err
	}
	err = withFiles(do(ctx, e), e)
	if err != nil && ctx.Err() != nil && parent.Err() == nil {
		fmt.Fprintln(c.stderr, "metamcp: interrupted; "+interrupted)
		err = statusError(exitInterrupted)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Config().Settings.DrainTimeout+e.EndTime())
	defer cancel()
	return errors.Join(err, e.Close(closing))
}
