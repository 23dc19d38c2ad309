package metamcp

import (
	"context"
	"time"

	"github.com/metamcp/metamcp/integration/front"
)

// moving is how long a host whose place another has taken still answers clients
// over HTTP that have a connection with it. Who sends something in that time is
// moved without noticing; a connection that is idle can be closed.
const moving = time.Second

// endHTTP lets clients over HTTP go to the next host, where it has the socket,
// and answers what is in flight, all for at most patience.
func (h *SharedHost) endHTTP(ctx context.Context, patience time.Duration) {
	if h.http == nil {
		return
	}
	h.http.Leave()
	if h.server.PassedOn() {
		wait := min(patience, moving)
		patience -= wait
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-h.e.hurry:
		case <-ctx.Done():
		}
	}
	closing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := h.http.Close(closing); err != nil {
		h.e.log.Warn("clients over HTTP were cut off", "error", err)
	}
}

// HTTP is where clients over HTTP are served; nil: nowhere.
func (h *SharedHost) HTTP() *front.Listener { return h.http }
