package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/metamcp/metamcp/messages"
)

func (k *Link) sessionNow() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session
}

// versionNow is the version of the protocol that is agreed upon; "": none yet.
func (k *Link) versionNow() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.version
}

// settle takes note of the era in which the connection above goes on. It may have
// greeted in both, where the first greeting had no answer for long, and then both may
// be answered: which of the answers it took, what it sends next says. The other
// greeting is given up, and what came of it forgotten. k.mu is held.
func (k *Link) settle(modern bool) {
	k.settled, k.modern = true, modern
	other := methodDiscover
	if modern {
		other = methodInitialize
		k.session, k.version = "", ""
	}
	for _, x := range k.inflight {
		if x.method == other {
			x.cancel()
		}
	}
}

// speaksOfSession says whether a refusal may be that of a session that the server
// has forgotten. 404 is, as the protocol has it; but many servers say it with 400
// and words, and so may a tool that has sessions of its own.
func speaksOfSession(status int, body []byte) bool {
	return (status == http.StatusBadRequest || status == http.StatusNotFound) && bytes.Contains(bytes.ToLower(body), []byte("session"))
}

// forgotten asks a server whether it is the session that it does not know: a ping
// is refused for nothing else in these ways.
func (k *Link) forgotten(ctx context.Context, session string) bool {
	forgotten, _ := k.remembers(ctx, session)
	return forgotten
}

// remembers is forgotten that also says where the server does know the session; it may
// say neither.
func (k *Link) remembers(ctx context.Context, session string) (forgotten, known bool) {
	if k.sessionNow() != session {
		return true, false // somebody has made another
	}
	resp, err := k.ping(ctx, k.base, session)
	if err != nil {
		return false, false
	}
	defer drain(resp)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	forgotten = resp.StatusCode == http.StatusNotFound || speaksOfSession(resp.StatusCode, body)
	return forgotten, !forgotten && resp.StatusCode < http.StatusBadRequest
}

// renewed makes a new session for a request that was refused for its old one, and
// says whether it is to be sent again: nothing is where the user wants that not to
// be done for any reason.
func (k *Link) renewed(x *exchange, session string) (again bool) {
	x.sent.Store(false) // the server did not look at it
	if err := k.renew(x.ctx, session); err != nil {
		if k.waits(x) && !cancelled(err) {
			k.fail(unreachable(err))
		}
		return false
	}
	if x.method != methodCall || k.spec.Retry != messages.RetryNever {
		return true
	}
	k.broken(x.id, nil, &Error{
		Said:   `the server has forgotten the session and did not look at the call; "retry": "never" forbids to send it again`,
		Advice: "There is a new session now: call again.",
		NotRun: true,
	})
	return false
}

// renewWhereForgotten makes a new session where the server does not know this one,
// in a goroutine: nobody waits for it.
func (k *Link) renewWhereForgotten(session string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	k.work.Go(func() {
		ctx, cancel := context.WithTimeout(k.ctx, reachPatience)
		defer cancel()
		if k.forgotten(ctx, session) {
			_ = k.renew(ctx, session) // the next request will tell
		}
	})
}

// renewUnasked makes a new session where the server does not know this one, though
// no request needs it: who waits for what the server says on its own would wait for
// ever. It has the time of a start for that, since requests that notice as well wait
// for it. A server that forgets again and again gets no new one each time. known says
// that it knows the session.
func (k *Link) renewUnasked(ctx context.Context, session string) (known bool) {
	k.mu.Lock()
	young := time.Since(k.renewedAt) < longestPause
	k.mu.Unlock()
	if young {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, max(k.spec.StartupTimeout, reachPatience))
	defer cancel()
	forgotten, known := k.remembers(ctx, session)
	if forgotten {
		_ = k.renew(ctx, session) // the stream is asked for again where that fails
	}
	return known
}

// renew makes a new session where old is still the present one: the greeting is
// sent again, and the connection above told that what it knows of the server and has
// told it is outdated. One does it, the others wait for it. A link that ends makes none:
// nobody would give it back.
func (k *Link) renew(ctx context.Context, old string) error {
	select {
	case k.renewing <- struct{}{}:
		defer func() { <-k.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	greeting, now, ended := k.greeting, k.session, k.ended
	k.mu.Unlock()
	switch {
	case ended:
		return context.Canceled
	case now != old:
		return nil
	}
	hello := &exchange{line: greeting, method: methodInitialize, ctx: ctx}
	resp, err := k.post(ctx, k.base, hello, "")
	if err != nil {
		return err
	}
	defer drain(resp)
	if resp.StatusCode >= http.StatusBadRequest {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return k.refusal(resp, body)
	}
	welcome, err := k.welcomed(resp)
	if err != nil {
		return err
	}
	version := agreed(welcome)
	session := resp.Header.Get(headerSession)
	ready := &exchange{line: []byte(`{"jsonrpc":"2.0","method":"` + methodInitialized + `"}`), method: methodInitialized, version: version, ctx: ctx}
	second, err := k.post(ctx, k.base, ready, session)
	if err != nil {
		return err
	}
	defer drain(second)
	if leavesUnread(second.StatusCode) {
		body, _ := io.ReadAll(io.LimitReader(second.Body, 4<<10))
		return k.refusal(second, body)
	}
	k.mu.Lock()
	k.session, k.version, k.renewedAt = session, version, time.Now()
	ended = k.ended
	k.mu.Unlock()
	if ended {
		return context.Canceled // finish gives it back
	}
	k.awaitListening(k.listen()) // which ends the stream of the old one
	k.tellRenewed(welcome)
	return nil
}

// leavesUnread says whether a status means that a session has not begun, since nobody
// took the notification that begins it. One that is refused otherwise counts for as
// little as at the start: some servers have no use for it, and do not know it.
func leavesUnread(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError && status != http.StatusNotImplemented
}

// welcomed reads what a server answers to a greeting that is none of the
// connection above. It returns the result, or says why it is no welcome.
func (k *Link) welcomed(resp *http.Response) (json.RawMessage, error) {
	next := func() ([]byte, error) {
		body, err := readWhole(resp.Body, k.l.o.MaxMessage)
		return unmarked(body), err
	}
	if isStream(resp) {
		events := newEventReader(resp.Body, k.l.o.MaxMessage)
		next = func() ([]byte, error) {
			ev, err := events.next()
			return ev.data, err
		}
	}
	for {
		text, err := next()
		if err != nil {
			return nil, err
		}
		var f messages.Frame
		switch err := k.read(text, &f); {
		case err == nil && f.Method != "" && isStream(resp): // before the answer
		case err == nil && len(f.Result) > 0:
			return f.Result, nil
		default:
			return nil, &Error{Said: "the server has forgotten the session, and gives no other: " + oneLine(text)}
		}
	}
}

// agreed is the version of the protocol that a server answers to a greeting; "": none.
func agreed(result json.RawMessage) string {
	var res struct {
		Version string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(result, &res)
	return res.Version
}
