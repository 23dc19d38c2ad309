package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

func newLogs(c *common) *cobra.Command {
	var host string
	var o control.LogOptions
	cmd := &cobra.Command{
		Use: "logs SERVER", Short: "Show what a server writes to stderr",
		Long: `Show the last lines that a server wrote to stderr. Without --host the running host
is asked where there is exactly one, and the files in the state folder are read
otherwise, so that no host needs to run.`,
		Example: `  metamcp logs github --follow
  metamcp logs github --lines 1000 > github.txt`,
		Args: args(oneArg),
		RunE: func(cmd *cobra.Command, given []string) error {
			if o.Lines < 0 {
				return usageError{fmt.Errorf("--lines %d: use a number from 0 on", o.Lines)}
			}
			if cfg, err := config.Load(c.sources()); err == nil && host == "" {
				if spec := cfg.Server(given[0]); spec != nil && spec.Err == nil && spec.Transport != messages.TransportStdio {
					return fmt.Errorf("%s is behind a URL, and what it writes is with whoever runs it; metamcp test %s says whether it works, and --log-level debug what metamcp does with it", printable(given[0]), printable(messages.ShellWord(given[0])))
				}
			}
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			out := shown(cmd.OutOrStdout())
			if host == "" {
				return c.anyLogs(ctx, out, given[0], o)
			}
			client, err := c.dialHost(host)
			if err != nil {
				return err
			}
			defer client.Close()
			return hostLogs(ctx, out, client, given[0], o)
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "the name or process id of a running host")
	cmd.Flags().IntVarP(&o.Lines, "lines", "n", control.DefaultLines, "so many of the last lines")
	cmd.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on with what comes, until interrupted")
	return cmd
}

// hostLogs copies a log from a running host.
func hostLogs(ctx context.Context, out io.Writer, client *control.Client, server string, o control.LogOptions) error {
	text, err := client.Logs(ctx, server, o)
	if err != nil {
		return untilDone(ctx, err)
	}
	defer func() { _ = text.Close() }()
	_, err = io.Copy(out, text)
	return untilDone(ctx, err)
}

// untilDone drops the error of a copy that was interrupted: that is how one
// that follows ends.
func untilDone(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// anyLogs asks the only running host, and else reads the files.
func (c *common) anyLogs(ctx context.Context, out io.Writer, server string, o control.LogOptions) error {
	dir, err := c.stateDir()
	if err != nil {
		return err
	}
	var answer error // of the host, where it knows better
	if info, err := control.Find(dir, ""); err == nil {
		client, err := control.Dial(info)
		if err == nil {
			defer client.Close()
			var e *control.Error
			err = hostLogs(ctx, out, client, server, o)
			if err == nil || !errors.As(err, &e) || e.Code != string(messages.CodeServerNotFound) {
				return err
			}
			answer = err // the log of a server that is configured no longer may be there
		}
	}
	folder := filepath.Join(dir, "logs")
	files := func() ([]string, error) { return control.LogFiles(folder, server) }
	found, err := files()
	switch {
	case err != nil:
		return err
	case len(found) == 0 && answer != nil:
		return answer
	case len(found) == 0 && !o.Follow:
		return fmt.Errorf("there is no log of %q in %s: the server wrote nothing to stderr, was never started, or has another name", server, folder)
	}
	return control.CopyLogs(ctx, out, files, o)
}
