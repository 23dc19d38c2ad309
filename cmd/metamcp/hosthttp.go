package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/front"
)

// noHTTP is the value of --http with which a host serves no clients over HTTP,
// whatever the configuration says.
const noHTTP = "none"

// hostHTTP is how a host serves clients over HTTP beside those that attach.
type hostHTTP struct {
	addr string // "": not at all
	l    *front.Listener
	// held says that the host before has the address and does not pass it on, so
	// that it is opened when that one lets go of it.
	held bool
}

// newHostHTTP looks at the flag and the configuration.
func newHostHTTP(flag string, cfg *config.Config) (*hostHTTP, error) {
	w := &hostHTTP{addr: flag}
	name, wrong := "--http", func(err error) error { return usageError{err} }
	switch flag {
	case noHTTP:
		w.addr = ""
		return w, nil
	case "":
		w.addr = cfg.Settings.HTTP.Addr
		name, wrong = "http.address", func(err error) error { return err }
	}
	if w.addr == "" {
		return w, nil
	}
	if _, _, err := front.CheckHTTPAddr(w.addr); err != nil {
		return nil, wrong(fmt.Errorf("%s: %w", name, err))
	}
	return w, nil
}

// prepare opens the address, with the socket of the host before where replace is
// set and there is one, so that no client is refused meanwhile.
func (w *hostHTTP) prepare(ctx context.Context, e *metamcp.Engine, replace bool) error {
	if w.addr == "" {
		return nil
	}
	cfg := e.Config()
	var before []control.HostInfo
	if replace {
		before = attach.Find(cfg.Settings.StateDir, cfg.Files)
	}
	for _, info := range before {
		if info.HTTP == "" {
			continue
		}
		socket, err := control.TakeSocket(ctx, info)
		if err != nil {
			e.Log().Debug("the host before does not pass on its socket", "pid", info.PID, "error", err)
			continue
		}
		if !front.ServesAt(socket, w.addr) {
			_ = socket.Close() // it is not needed
			continue
		}
		if w.l, err = e.PrepareHTTP(ctx, w.addr, socket); err != nil {
			_ = socket.Close() // the host before goes on with it
		}
		return err
	}
	var err error
	if w.l, err = e.PrepareHTTP(ctx, w.addr, nil); err == nil {
		return nil
	}
	for _, info := range before {
		if w.held = sameAddr(info.HTTP, w.addr); w.held {
			return nil
		}
	}
	return err
}

// sameAddr tells whether the host of a URL has a port of its own that addr wants.
func sameAddr(at, addr string) bool {
	u, err := url.Parse(at)
	if err != nil || at == "" {
		return false
	}
	checked, _, err := front.CheckHTTPAddr(addr)
	return err == nil && checked == u.Host
}

// reopen opens an address that the host before has let go of, or is about to.
func (w *hostHTTP) reopen(ctx context.Context, e *metamcp.Engine, deadline time.Time) {
	for w.held {
		var err error
		if w.l, err = e.PrepareHTTP(ctx, w.addr, nil); err == nil {
			w.held = false
			return
		}
		if time.Now().After(deadline) {
			// The host before ends, so that this one must go on.
			e.Log().Error("the host goes on without clients over HTTP", "error", err)
			return
		}
		const pause = 10 * time.Millisecond
		time.Sleep(pause)
	}
}

// close ends what no host has taken over.
func (w *hostHTTP) close(ctx context.Context) error {
	if w.l == nil {
		return nil
	}
	return w.l.Close(ctx)
}

// watchHTTP says so where clients over HTTP are not served any more, before
// ending is closed.
func watchHTTP(e *metamcp.Engine, l *front.Listener, ending <-chan struct{}) {
	if l == nil {
		return
	}
	select {
	case <-l.Done():
		select {
		case <-ending:
			return
		default:
		}
		e.Log().Error("clients over HTTP are not served any more", "url", l.URL())
	case <-ending:
	}
}
