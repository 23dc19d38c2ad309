package demoserver

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// exit ends the process; tests in this process put something else here.
var exit = os.Exit

// arm sets up all that holds for the whole life of the process: its end, the
// signals it ignores, its line in the PID file, its helper. It returns true
// where the process is done already.
func (o *Options) arm(ctx context.Context, out io.Writer) (done bool, err error) {
	if o.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	}
	if o.IgnoreEOF {
		// Who stays when the client is gone also outlives a write to the pipe of
		// its stderr, which Go would end the process for.
		signal.Ignore(syscall.SIGPIPE)
	}
	role := "server"
	if o.helper {
		role = "helper"
	}
	if err := appendLine(o.PIDFile, fmt.Appendf(nil, "%d %s", os.Getpid(), role)); err != nil {
		return false, err
	}
	if o.helper {
		<-ctx.Done() // or the end of MaxLife
		return true, nil
	}
	for i := range o.StderrLines {
		if _, err := fmt.Fprintf(o.stderr(), "demo-server: line %d of %d at start\n", i+1, o.StderrLines); err != nil {
			return false, err
		}
	}
	if o.ExitAtStart >= 0 {
		_, _ = fmt.Fprintln(o.stderr(), o.ExitText)
		exit(o.ExitAtStart)
		return true, nil
	}
	if o.Fork || o.ForkSetsid {
		if err := o.fork(out); err != nil {
			return false, fmt.Errorf("demo-server: start the helper process: %w", err)
		}
	}
	return false, o.pause(ctx)
}

func (o *Options) pause(ctx context.Context) error {
	if o.StartDelay <= 0 {
		return nil
	}
	t := time.NewTimer(o.StartDelay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fork starts the helper and waits for it no longer than it takes to start:
// leaving it behind is its purpose. It shares the file that the answers go to,
// which need not be os.Stdout: a command that keeps the protocol's output to
// itself points that elsewhere.
func (o *Options) fork(out io.Writer) error {
	self := o.Self
	if self == nil {
		path, err := os.Executable()
		if err != nil {
			return err
		}
		self = []string{path, "demo-server"}
	}
	args := append([]string(nil), self[1:]...)
	args = append(args, "--helper", "--max-life", o.MaxLife.String(), "--pid-file", o.PIDFile)
	if o.IgnoreTerm {
		args = append(args, "--ignore-term")
	}
	cmd := exec.Command(self[0], args...) //nolint:noctx // The helper is meant to outlive any context.
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if f, ok := out.(*os.File); ok {
		cmd.Stdout = f
	}
	if o.ForkSetsid {
		cmd.SysProcAttr = ownSession()
	}
	return cmd.Start()
}
