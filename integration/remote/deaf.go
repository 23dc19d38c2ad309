package remote

import (
	"context"
	"time"
)

// deafPause is the longest time for which the lists of a server that is not heard are not
// read anew.
const deafPause = time.Minute

// deafness is the time in which a stream is not there that a server has had: nobody hears
// of what it changes then. It belongs to the goroutine that asks for the stream.
type deafness struct {
	k      *Link
	ctx    context.Context    //nolint:containedctx // that of the stream
	cancel context.CancelFunc // nil: the server is heard, or never was
}

func (k *Link) deafness(ctx context.Context) *deafness { return &deafness{k: k, ctx: ctx} }

// begin has the lists be read anew for as long as the server is not heard, at first soon
// and then once a minute: whether the next stream is refused, has no answer, or is asked
// for after a long pause only, since the server wants that. Where it never had one that is
// left to who reads the lists.
func (d *deafness) begin() {
	if d.cancel != nil || !d.k.streams.Load() {
		return
	}
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(d.ctx)
	d.k.work.Go(func() {
		for wait := d.k.l.o.deaf; sleep(ctx, wait); wait = min(2*wait, deafPause) {
			if d.k.hearings.Load() == 0 && d.k.serves(ctx) {
				d.k.tellUnheard()
			}
		}
	})
}

// end is for a server that is heard, or that nobody needs to hear any more.
func (d *deafness) end() {
	if d.cancel != nil {
		d.cancel()
		d.cancel = nil
	}
}

// serves says whether the server would answer a request for its lists: one that does not is
// not to be taken for broken since nobody has use for it at the moment.
func (k *Link) serves(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	resp, err := k.ping(ctx, k.base, k.sessionNow())
	if err != nil {
		return false
	}
	drain(resp)
	return !mayStreamLater(resp.StatusCode) && !noCredential(resp.StatusCode)
}
