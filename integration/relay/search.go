package relay

import (
	"errors"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// look looks for a host, where none takes requests. r.mu is held.
func (r *relay) look() {
	if r.search || r.over || len(r.held) == 0 && (r.eof || r.cur != nil) {
		return
	}
	r.search = true
	if l := r.cur; l != nil {
		// What a host that has ended did not take came back after the next one was there.
		r.cur = nil
		go func() {
			if r.serve(l) != nil {
				r.find()
			}
		}()
		return
	}
	go r.find()
}

// find looks for a host until there is one, or none is needed any more.
func (r *relay) find() {
	pause, began, said := firstPause, time.Now(), false
	for {
		err := r.attempt()
		if err == nil {
			if said {
				r.o.Say("the host is back")
			}
			return
		}
		r.mu.Lock()
		r.reason = err.Error()
		if errors.Is(err, attach.ErrNoHost) {
			r.reason = ""
		}
		if r.eof && len(r.held) == 0 {
			r.search = false
			r.settle()
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		if !said && time.Since(began) > sayAfter {
			said = true
			r.o.Say("the host is away: " + err.Error() + "; looking for it goes on")
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return
		}
		pause = min(pause*3/2, lastPause)
	}
}

// attempt connects with a host, tells it of the session, and sends what waits.
func (r *relay) attempt() error {
	conn, err := r.o.Connect(r.ctx, true)
	if err != nil {
		return err
	}
	l := r.open(conn, false)
	if err := r.resume(l); err != nil {
		r.lost(l)
		return err
	}
	return r.serve(l)
}

// serve sends what waits to a host and then lets it take requests.
func (r *relay) serve(l *link) error {
	for {
		r.mu.Lock()
		switch {
		case l.dead || l.draining:
			r.mu.Unlock()
			return errors.New("the host ended again at once")
		case len(r.held) == 0:
			r.cur, r.search, r.reason = l, false, ""
			var changed [][]byte
			if r.initialized {
				for _, method := range append([]string{methodTools}, r.listed...) {
					changed = append(changed, []byte(`{"jsonrpc":"2.0","method":"`+method+`"}`+"\n"))
				}
			}
			ending := r.settle()
			r.mu.Unlock()
			r.write(changed)
			r.endWrites(ending)
			return nil
		}
		w := r.held[0]
		r.held = r.held[1:]
		r.heldSize -= len(w.line)
		if w.req != nil {
			if w.req.timer != nil {
				w.req.timer.Stop()
				w.req.timer = nil
			}
			r.assign(w.req, l)
		}
		r.busy++
		r.mu.Unlock()
		r.send(l, w.req, w.line)
		r.written()
	}
}
