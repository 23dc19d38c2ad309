package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// maxResumes is how often in a row a broken stream is opened again before
	// the request that waits for it has no answer.
	maxResumes = 5
	// refusedPause is the longest pause after a refused connection: nobody listens
	// there, and either somebody does in a few seconds or the request is lost.
	refusedPause = time.Second
	// longestPause is the distance between attempts to open a stream.
	longestPause = 30 * time.Second
	// longestAsked is the longest pause that a server can ask for.
	longestAsked = 5 * time.Minute
	// steadyStream is how long a stream was there that is not taken for one which ends at
	// once each time.
	steadyStream = 5 * time.Second
)

// stream reads the events that answer x, and goes on where the server offers to
// when they break off.
func (k *Link) stream(x *exchange, body io.Reader) {
	events := newEventReader(body, k.l.o.MaxMessage)
	answered, err := k.events(events, x)
	for resumes := 0; !answered && k.waits(x); {
		if events.id == "" || resumes == maxResumes || k.isModern() || errors.Is(err, errNoResuming) {
			k.unanswered(x, err)
			return
		}
		resumes++
		last := events.id
		answered, err = k.resume(x, events, resumes, refusesConnections(err))
		if events.id != last {
			resumes = 0
		}
	}
}

// resume asks for the rest of a stream after a pause, and reads it. The error is
// io.EOF where the server has none. refused says that the connection was refused
// the last time.
func (k *Link) resume(x *exchange, events *eventReader, attempt int, refused bool) (answered bool, err error) {
	asked, first := events.retry, k.l.o.Reconnect
	if refused {
		asked, first, attempt = 0, min(first, refusedPause), 1
	}
	if !pause(x.ctx, asked, first, attempt) {
		return false, x.ctx.Err()
	}
	resp, err := k.get(x.ctx, k.base, events.id)
	if err != nil {
		return false, err
	}
	defer drain(resp)
	if resp.StatusCode == http.StatusMethodNotAllowed {
		return false, errNoResuming
	}
	if !isStream(resp) {
		return false, io.EOF
	}
	events.goOn(resp.Body)
	return k.events(events, x)
}

// errNoResuming says that a server has no streams to come back to, whatever ids it
// gives its events: to ask again changes nothing.
var errNoResuming = fmt.Errorf("the server takes no GET, so that no stream goes on: %w", io.EOF)

// refusesConnections says whether nobody listens at the server's address.
func refusesConnections(err error) bool {
	const winsock = syscall.Errno(10061)
	return errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, winsock)
}

// isModern says that the server is of the era that has neither sessions nor
// streams that go on.
func (k *Link) isModern() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.modern
}

func isStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp.StatusCode == http.StatusOK && kind == streamType
}

// unanswered ends a request whose stream is over: one that was closed in order
// says that the server is there. Where the rest of the stream was refused, the
// request itself had been taken. What it said on its own in that stream may be lost with it.
func (k *Link) unanswered(x *exchange, err error) {
	var f *Error
	switch {
	case errors.Is(err, io.EOF):
		err = &Error{Said: "the stream ended before the answer came", Cause: io.ErrUnexpectedEOF}
	case errors.As(err, &f) && f.NotRun:
		taken := *f
		taken.NotRun = false
		err = &taken
	}
	k.lost(x, err)
	if k.waits(x) { // else the link has ended
		k.tellUnheard()
	}
}

// events hands on what comes until x is answered (nil: until the stream ends).
func (k *Link) events(events *eventReader, x *exchange) (answered bool, _ error) {
	for {
		ev, err := events.next()
		switch {
		case err != nil:
			return false, err
		case ev.over && x != nil:
			k.tooLarge(x.id)
			return true, nil
		case ev.over, ev.name != "" && ev.name != "message", len(ev.data) == 0:
			continue
		}
		answered := k.frames(ev.data, x)
		if x != nil {
			x.heard()
		}
		if answered {
			return true, nil
		}
	}
}

// pause waits before an attempt, the longer the more have failed, and not at the
// same moment as everybody else; what the server asked for is the least, within reason.
func pause(ctx context.Context, asked, first time.Duration, attempt int) bool {
	return sleep(ctx, pauseBefore(asked, first, attempt))
}

func pauseBefore(asked, first time.Duration, attempt int) time.Duration {
	asked = min(asked, longestAsked)
	if asked > 0 && attempt <= 1 {
		return asked
	}
	wait := max(min(first<<min(attempt-1, 10), longestPause), asked)
	return wait + rand.N(wait/4+1) //nolint:gosec // spreads attempts, guards nothing
}

// sleep waits, and says whether ctx is still there.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (k *Link) get(ctx context.Context, from *url.URL, last string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return nil, err
	}
	k.headers(req, k.sessionNow(), k.versionNow())
	req.Header.Set("Accept", streamType)
	req.Header.Set("Cache-Control", "no-store")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	return k.do(req)
}

// listen keeps the stream open in which a legacy server says what belongs to no
// request, for as long as the session is the same. A server need not have one.
// The channel is closed once the server has answered, however.
func (k *Link) listen() <-chan struct{} {
	answered := make(chan struct{})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended || k.modern || k.sse != nil {
		close(answered)
		return answered
	}
	if k.hush != nil {
		k.hush() // the stream of a session that is no more
	}
	var ctx context.Context
	ctx, k.hush = context.WithCancel(k.ctx)
	session, asked := k.session, time.Now()
	k.work.Go(func() { k.hear(ctx, session, asked, sync.OnceFunc(func() { close(answered) })) })
	return answered
}

// awaitListening holds back the first requests until what they cause can be
// heard, but not for a server that answers with its first event only.
func (k *Link) awaitListening(answered <-chan struct{}) {
	timer := time.NewTimer(k.l.o.hold)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	case <-k.ctx.Done():
	}
}

// subscribe keeps the stream open in which a modern server says what has changed,
// as long as the connection above wants it. Such a stream does not go on where it ended:
// what the server has changed before the next one is there nobody is told.
func (k *Link) subscribe(x *exchange) {
	events := newEventReader(nil, k.l.o.MaxMessage)
	deaf := k.deafness(x.ctx)
	defer deaf.end()
	deaf.begin()
	for attempt, opened := 1, false; ; attempt++ {
		resp, err := k.post(x.ctx, k.base, x, "")
		if err != nil || !isStream(resp) {
			x.heard()
		}
		switch {
		case err != nil: // a request will tell if it is gone
		case isStream(resp):
			deaf.end()
			if (opened || attempt > 1) && k.hearings.Load() == 0 {
				k.tellUnheard()
			}
			events.goOn(resp.Body)
			began := time.Now()
			opened = true
			answered := k.hearing(events, x)
			_ = resp.Body.Close()
			x.heard()
			if answered {
				return
			}
			attempt = failed(attempt, time.Since(began))
		case mayStreamLater(resp.StatusCode) && (opened || attempt > 1 || resp.StatusCode != http.StatusInternalServerError && resp.StatusCode != http.StatusNotImplemented):
			drain(resp)
		default:
			k.answer(x, resp, "", false)
			drain(resp)
			return
		}
		deaf.begin()
		if !pause(x.ctx, events.retry, k.l.o.Reconnect, max(attempt, 1)) {
			return
		}
	}
}

// hearing hands on what comes in a stream for what the server says on its own, and says
// whether that was the answer to x, which asked for it.
func (k *Link) hearing(events *eventReader, x *exchange) (answered bool) {
	k.streams.Store(true)
	k.hearings.Add(1)
	defer k.hearings.Add(-1)
	answered, _ = k.events(events, x)
	return answered
}

// failed is how many attempts at a stream in a row came to nothing, where the last one
// has ended after some time.
func failed(attempts int, lived time.Duration) int {
	if lived >= steadyStream {
		return 0
	}
	return attempts
}

// hear is the stream of [Link.listen]. The server's lists may be others with each stream
// that is not the first one, and with that as well where the first requests have not waited
// for it: also one that numbers its events may have begun to count anew. One that had a
// stream is asked for it whatever it says meanwhile: it may be what is in front of it that
// answers while it is away, or another one of several.
func (k *Link) hear(ctx context.Context, session string, asked time.Time, answered func()) {
	defer answered()
	events := newEventReader(nil, k.l.o.MaxMessage)
	deaf := k.deafness(ctx)
	defer deaf.end()
	for attempt := 0; ; attempt++ {
		deaf.begin()
		if attempt > 0 && !pause(ctx, events.retry, k.l.o.Reconnect, attempt) || k.sessionNow() != session {
			return
		}
		resp, err := k.get(ctx, k.base, events.id)
		answered()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				drain(resp)
			}
			return
		case err != nil:
			if refusedAs(err) != 0 && !k.streams.Load() {
				return
			}
			continue // a request will tell if the server is gone
		case !isStream(resp):
			drain(resp)
			if !k.hearsLater(ctx, session, resp.StatusCode, events) {
				return
			}
			continue
		}
		deaf.end()
		if attempt > 0 || time.Since(asked) > k.l.o.hold {
			k.tellUnheard()
		}
		events.goOn(resp.Body)
		began := time.Now()
		k.hearing(events, nil)
		_ = resp.Body.Close()
		attempt = failed(attempt, time.Since(began))
	}
}

// hearsLater says whether a stream that was refused is asked for again.
func (k *Link) hearsLater(ctx context.Context, session string, status int, events *eventReader) bool {
	if mayStreamLater(status) {
		return true
	}
	had := k.streams.Load()
	if had && (status == http.StatusNotFound || status == http.StatusBadRequest) && (session == "" || k.renewUnasked(ctx, session)) {
		events.id = "" // the event may be what it does not know
	}
	return had
}

// mayStreamLater says whether a server that answers a GET so may have a stream for
// it another time. 409 is that of one which has not noticed yet that the stream
// before is gone.
func mayStreamLater(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}
