package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

// hurryTime is how long a host has to follow SIGTERM before it gets another one,
// which ends the calls in flight; forceTime is how long it has then before it is
// killed, and killTime how long the system has for that.
const (
	hurryTime = 3 * time.Second
	forceTime = 7 * time.Second
	killTime  = 10 * time.Second
)

func newHostStop(c *common) *cobra.Command {
	now, force := false, false
	cmd := &cobra.Command{
		Use: "stop", Short: "End the host that runs for this configuration",
		Long: `End the host. Calls in flight are answered first, for as long as drainTimeoutMs
says; --now does not wait for them. Clients stay, and go on when a host runs again.
--force is for a host that does not answer: it gets SIGTERM, 3 s later another one,
which does not wait for calls in flight, and SIGKILL 10 s after the first.`,
		Example: `  metamcp host stop
  metamcp host stop --now`,
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.hostPlace()
			if err != nil {
				return err
			}
			info, how, err := p.stop(cmd.Context(), now, force)
			if err == nil && info == nil {
				err = p.none("")
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the host %s (pid %d) has ended%s\n", oneLine(info.Name), info.PID, how)
			return err
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "do not wait for calls in flight")
	cmd.Flags().BoolVar(&force, "force", false, "end it with signals, also where it does not answer")
	return cmd
}

// stop ends the host that runs, and waits for that. It returns nil where there is
// none; how says what else there is to say.
func (p *hostPlace) stop(ctx context.Context, now, force bool) (info *control.HostInfo, how string, err error) {
	info, err = p.living(ctx)
	var hangs *attach.HangsError
	if force && errors.As(err, &hangs) {
		info, err = &hangs.Host, nil
	}
	if err != nil || info == nil {
		return nil, "", hostError(err, control.HostInfo{})
	}
	if force {
		how, err = forceEnd(ctx, info)
		return info, how, err
	}
	if err := stopHost(ctx, *info, now); err != nil {
		return nil, "", hostError(err, *info)
	}
	return info, "", awaitEnd(ctx, info, p.drain+p.end)
}

// forceEnd ends a process that took connections at a host's socket a moment ago. Its
// children are ended by their watchdog.
func forceEnd(ctx context.Context, info *control.HostInfo) (how string, err error) {
	process, err := os.FindProcess(info.PID)
	if err != nil {
		return "", err
	}
	for _, limit := range []time.Duration{hurryTime, forceTime} {
		if process.Signal(syscall.SIGTERM) == nil && awaitEnd(ctx, info, limit) == nil {
			return "", nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return "", fmt.Errorf("the host %s (pid %d) cannot be killed: %w", info.Name, info.PID, err)
	}
	return ": it was killed, since it did not follow SIGTERM", awaitEnd(ctx, info, killTime)
}

// awaitEnd waits until a host that was asked to end has ended.
func awaitEnd(ctx context.Context, info *control.HostInfo, limit time.Duration) error {
	deadline := time.After(limit)
	tick := time.NewTicker(startLook)
	defer tick.Stop()
	for alive(info.PID) {
		select {
		case <-tick.C:
		case <-deadline:
			return &metamcp.Error{
				Code:    messages.CodeHostAway,
				Message: fmt.Sprintf("the host %s (pid %d) was asked to end and has not ended after %v", info.Name, info.PID, limit),
				Hint:    "End it with `metamcp host stop --force`.",
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
