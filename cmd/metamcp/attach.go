package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/integration/relay"
	"github.com/metamcp/metamcp/messages"
)

// attachPatience is how long a client's metamcp waits for a host that is
// announced and does not take it, such as one that is being replaced.
// What is tried before the program is set up is part of it.
const attachPatience = 15*time.Second - attach.EarlyPatience

// attachOrServe serves the client by way of the host that runs, or by itself.
func attachOrServe(ctx context.Context, c *common) error {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return err
	}
	// A host that runs would take the client whose server it is.
	if err := cfg.CheckLoop(true); err != nil {
		return err
	}
	mode := cfg.Settings.Attach
	if own := c.ownHost(); own != "" && mode != "never" {
		if mode == "require" {
			return usageError{fmt.Errorf("%s is for a host of its own, and attach is set to require; use --attach=never with it, or start the host with it: metamcp host", own)}
		}
		mode = "never"
	}
	if mode == "never" || isTerminal(os.Stdin) && mode == "auto" || cfg.Settings.StateDir == "" {
		return serve(ctx, c)
	}
	first, err := c.attach(ctx, cfg)
	switch {
	case err != nil:
		return err
	case first == nil && mode == "require":
		return hostOf(cfg).none(", and attach is set to require")
	case first == nil:
		return serve(ctx, c)
	}
	code := relay.Main(first, func(ctx context.Context, resumed bool) (*attach.Conn, error) {
		return c.nextHost(ctx, cfg, resumed)
	})
	if code != exitOK {
		return statusError(code)
	}
	return nil
}

// nextHost connects with the host that runs now. Where there was no file, one may have
// come since: a host that has read it is announced by it.
func (c *common) nextHost(ctx context.Context, cfg *config.Config, resumed bool) (*attach.Conn, error) {
	if len(cfg.Files) == 0 {
		if come, _ := config.FilesOf(c.sources()); len(come) > 0 {
			conn, err := attach.Connect(ctx, cfg.Settings.StateDir, come, c.hello(resumed))
			if !errors.Is(err, attach.ErrNoHost) {
				return conn, err
			}
		}
	}
	return attach.Connect(ctx, cfg.Settings.StateDir, cfg.Files, c.hello(resumed))
}

// ownHost is a flag that makes sense only for a host of one's own; "": there is
// none.
func (c *common) ownHost() string {
	switch {
	case c.name != "":
		return "--name"
	case c.web != "":
		return "--web"
	case c.http != "":
		return "--http"
	case c.borrow:
		return "--import"
	}
	return ""
}

func (c *common) hello(resumed bool) attach.Hello {
	return attach.Hello{PID: os.Getpid(), Resumed: resumed, Settings: config.Given(c.sources()), Chain: lineage.Parse(os.Getenv(lineage.Var))}
}

// attach connects with the host that runs. It returns nil where there is none,
// or, with attach auto, one of another version.
func (c *common) attach(ctx context.Context, cfg *config.Config) (*attach.Conn, error) {
	if !attach.Readable(cfg.Files) {
		return nil, nil
	}
	log, err := c.logger()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(attachPatience)
	for {
		coming := attach.Coming(cfg.Settings.StateDir, cfg.Files)
		asking, cancel := context.WithDeadline(ctx, deadline)
		conn, err := attach.Connect(asking, cfg.Settings.StateDir, cfg.Files, c.hello(false))
		cancel()
		if err == nil {
			return conn, nil
		}
		var refused *attach.RefusedError
		var hangs *attach.HangsError
		switch {
		case errors.As(err, &hangs):
			return nil, &metamcp.Error{
				Code: messages.CodeHostAway, Message: hangs.Error(), Hint: attach.HangsHint + " --attach=never starts servers of its own instead.", Cause: err,
			}
		case errors.Is(err, attach.ErrNoHost) && (!coming || time.Now().After(deadline)):
			return nil, nil
		case errors.Is(err, attach.ErrNoHost): // in a moment
		case errors.As(err, &refused) && refused.Incompatible() && cfg.Settings.Attach == "auto":
			log.Warn("the host that runs cannot be used, so this metamcp starts servers of its own", "reason", refused.Error())
			return nil, nil
		case errors.As(err, &refused) && refused.Code != control.CodeShuttingDown, time.Now().After(deadline):
			return nil, &metamcp.Error{
				Code: messages.CodeHostAway, Message: "the host that runs for this configuration cannot be used: " + err.Error(),
				Hint: "Look at it with `metamcp host status`; --attach=never starts servers of its own instead.", Cause: err,
			}
		}
		const pause = 50 * time.Millisecond
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
