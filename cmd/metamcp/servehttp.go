package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/front"
)

// overStdio tells whether a client is served over standard input and output.
func (c *common) overStdio() bool { return c.http == "" || c.stdio }

// serveClients serves clients over stdio, HTTP or both until the one over stdio
// has gone or ctx is done, and drains what is in flight.
func (c *common) serveClients(ctx context.Context, e *metamcp.Engine, out *os.File) error {
	if c.http == "" {
		return e.ServeStdio(ctx, os.Stdin, out)
	}
	l, err := e.ListenHTTP(ctx, c.http)
	if err != nil {
		err = fmt.Errorf("--http: %w", err)
		if !c.stdio {
			return err
		}
		// The client that started this has no use for an address.
		e.Log().Error("clients over HTTP are not served", "error", err)
		return e.ServeStdio(ctx, os.Stdin, out)
	}
	fmt.Fprintln(c.stderr, "metamcp: MCP over HTTP at", l.URL())
	if c.stdio {
		return serveBoth(ctx, e, l, out)
	}
	select {
	case <-ctx.Done():
	case <-l.Done():
	}
	return endHTTP(ctx, e.Config().Settings.DrainTimeout, l.Close)
}

// serveBoth serves clients over HTTP as long as there is one over stdio.
func serveBoth(ctx context.Context, e *metamcp.Engine, l *front.Listener, out *os.File) error {
	watched, gone := context.WithCancel(ctx)
	defer gone()
	go watchHTTP(e, l, watched.Done())
	closed := make(chan error, 1)
	// A signal ends both at once, so that each has the whole time to drain.
	unhook := context.AfterFunc(ctx, func() { closed <- endHTTP(ctx, e.Config().Settings.DrainTimeout, l.Close) })
	err := e.ServeStdio(ctx, os.Stdin, out)
	gone()
	if unhook() {
		return errors.Join(err, endHTTP(ctx, e.Config().Settings.DrainTimeout, l.Close))
	}
	return errors.Join(err, <-closed)
}

// endHTTP answers what is in flight over HTTP, which has all of drain for that, and takes
// nothing more.
func endHTTP(ctx context.Context, drain time.Duration, closing func(context.Context) error) error {
	return closeWithin(ctx, drain+restTimeout, closing)
}
