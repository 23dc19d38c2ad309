package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/web"
)

// hostPages are what a host shows of itself over TCP: its metrics and its page.
type hostPages struct {
	c    *common
	e    *metamcp.Engine
	stop context.CancelFunc
	over chan struct{} // closed when nothing is tried any more

	mu   sync.Mutex
	page *web.Server // nil: none
}

// pageRetry is the time between two attempts to get an address.
const pageRetry = 50 * time.Millisecond

// openPages serves both. An address that is in use is the former host's, where there
// was one, until that has answered its calls and ended: it is tried again for patience.
func (c *common) openPages(e *metamcp.Engine, patience time.Duration) *hostPages {
	ctx, stop := context.WithCancel(context.Background())
	p := &hostPages{c: c, e: e, stop: stop, over: make(chan struct{})}
	deadline := time.Now().Add(patience)
	open := []func() error{p.metrics, p.web}
	try := func() bool {
		late := !time.Now().Before(deadline)
		var left []func() error
		for _, one := range open {
			if err := one(); err != nil && !late && errors.Is(err, syscall.EADDRINUSE) {
				left = append(left, one)
			} else if err != nil {
				e.Log().Error("the host goes on without", "error", err)
			}
		}
		open = left
		return len(open) == 0
	}
	if try() {
		close(p.over)
		return p
	}
	go func() {
		defer close(p.over)
		tick := time.NewTicker(pageRetry)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if try() {
					return
				}
			}
		}
	}()
	return p
}

func (p *hostPages) metrics() error {
	addr, err := p.e.ServeMetrics()
	if err == nil && addr != nil {
		p.e.Log().Info("metrics are served", "url", "http://"+addr.String()+"/metrics")
	}
	return err
}

func (p *hostPages) web() error {
	if p.c.web == "" {
		return nil
	}
	page, err := p.e.OpenWeb(p.c.web, p.c.name)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.c.stderr, "metamcp: this host in a browser:", page.URL())
	p.mu.Lock()
	p.page = page
	p.mu.Unlock()
	return nil
}

// settle ends all attempts.
func (p *hostPages) settle() {
	p.stop()
	<-p.over
}

// close ends the page; the metrics end with the engine.
func (p *hostPages) close(ctx context.Context) error {
	p.settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil {
		return nil
	}
	return p.page.Close(ctx)
}
