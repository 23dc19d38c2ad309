package remote

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

const (
	methodPing = "ping"
	// reachID is the id of our own pings, whose answers are for nobody else.
	reachID   = `"metamcp-reach"`
	reachLine = `{"jsonrpc":"2.0","id":` + reachID + `,"method":"ping"}`
	// reachPatience is how long a server has to take a look in.
	reachPatience = 5 * time.Second
)

// lost ends a request for an error of the network. Others on the same link go on,
// unless the server cannot be reached for a ping either, or was only about to
// start: then the link ends, and all of them have one cause.
func (k *Link) lost(x *exchange, err error) {
	if !k.waits(x) || cancelled(err) {
		return
	}
	f := unreachable(err)
	f.NotRun = f.NotRun || !x.sent.Load()
	if k.starts(x) {
		k.fail(f)
		return
	}
	if x.id == nil {
		return // nobody waits, and what is wrong shows with the next request
	}
	// An error of our own is what we made of something that the server said.
	if own := (*Error)(nil); !errors.As(err, &own) {
		if err := k.reach(); err != nil {
			if k.ctx.Err() == nil {
				k.fail(unreachable(err))
			}
			return
		}
	}
	if k.waits(x) {
		k.broken(x.id, nil, f)
	}
}

// starts says whether the link is of no use without an answer to x: a greeting, or
// the first listing of the tools.
func (k *Link) starts(x *exchange) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.proven && k.sse == nil || x.method == methodInitialize || x.method == methodInitialized ||
		!k.listed && (x.method == methodTools || x.method == methodDiscover)
}

// reach looks whether the server can be reached. Of those who want to know at once
// one looks, and the others take what it found. A server that takes the ping and
// says nothing for a while is there; whoever waits for an answer has a deadline.
func (k *Link) reach() error {
	since := time.Now()
	select {
	case k.reaching <- struct{}{}:
		defer func() { <-k.reaching }()
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	k.mu.Lock()
	known := k.ended || k.reached.After(since)
	to := k.base
	if k.sse != nil {
		to = k.sse.endpoint // which who lost something has known
	}
	k.mu.Unlock()
	if known {
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(k.ctx, reachPatience)
	defer cancel()
	resp, err := k.ping(ctx, to, k.sessionNow())
	switch own := (*Error)(nil); {
	case err == nil:
		drain(resp)
	case errors.As(err, &own), ctx.Err() != nil && k.ctx.Err() == nil:
	default:
		return err
	}
	k.mu.Lock()
	k.reached = began
	k.mu.Unlock()
	return nil
}

// ping asks the server for the least that it can be asked for.
func (k *Link) ping(ctx context.Context, to *url.URL, session string) (*http.Response, error) {
	x := &exchange{line: []byte(reachLine), method: methodPing}
	k.mu.Lock()
	if k.modern {
		x = &exchange{line: k.discover, method: methodDiscover} // there is no ping in that era
	}
	k.mu.Unlock()
	return k.post(ctx, to, x, session)
}
