package remote

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// sseState is what HTTP+SSE, the transport of 2024-11-05, needs beyond a URL: a
// stream that the server keeps open says where requests go, and carries every
// answer.
type sseState struct {
	ready    chan struct{} // closed once endpoint is known
	endpoint *url.URL
}

func (k *Link) sseMode() *sseState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sse
}

// useSSE turns to the older transport, for good. It reports whether the link is
// still wanted.
func (k *Link) useSSE() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return false
	}
	if k.sse == nil {
		s := &sseState{ready: make(chan struct{})}
		k.sse = s
		k.work.Go(func() { k.hearSSE(s) })
	}
	return true
}

// hearSSE reads the one stream; its end is the link's.
func (k *Link) hearSSE(s *sseState) {
	resp, err := k.get(k.ctx, k.base, "")
	if err != nil {
		if k.ctx.Err() == nil {
			k.fail(unreachable(err))
		}
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if !isStream(resp) {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		f := k.refusal(resp, body)
		if resp.StatusCode < http.StatusBadRequest {
			f = &Error{Said: fmt.Sprintf("it answered HTTP %d with %q where an event stream was due", resp.StatusCode, resp.Header.Get("Content-Type"))}
		}
		k.fail(k.notSSE(f))
		return
	}
	events := newEventReader(resp.Body, k.l.o.MaxMessage)
	for {
		ev, err := events.next()
		switch {
		case err != nil:
			if k.ctx.Err() == nil {
				k.fail(unreachable(err))
			}
			return
		case ev.name == "endpoint" && s.endpoint == nil:
			to, err := k.base.Parse(string(ev.data))
			if err != nil || to.Scheme != k.base.Scheme || !sameHost(k.base, to) {
				k.fail(&Error{Said: "it wants its requests sent to another origin than the one that was configured"})
				return
			}
			s.endpoint = to
			close(s.ready)
		case ev.over:
			k.noise([]byte("a message over the size limit"))
		case ev.name == "" || ev.name == "message":
			k.frames(ev.data, nil)
		}
	}
}

// exchangeSSE sends a line to where the server wants it, and stays until the
// stream has brought the answer.
func (k *Link) exchangeSSE(x *exchange, s *sseState) {
	select {
	case <-s.ready:
	case <-x.ctx.Done():
		return
	}
	resp, err := k.post(x.ctx, s.endpoint, x, "")
	if err != nil {
		k.lost(x, err)
		return
	}
	const enough = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(resp.Body, enough))
	drain(resp)
	if resp.StatusCode >= http.StatusBadRequest {
		f := k.refusal(resp, body)
		if x.id == nil {
			return
		}
		if noCredential(resp.StatusCode) && k.starts(x) {
			k.fail(f)
		} else {
			k.broken(x.id, nil, f)
		}
		return
	}
	if x.id != nil {
		<-x.ctx.Done()
	}
}
