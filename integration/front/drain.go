package front

import (
	"errors"
	"fmt"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// lookForReader is how often a session that drains looks whether its client can
// still read.
const lookForReader = 50 * time.Millisecond

// drain waits until the requests in flight are answered. What is not after
// timeout, or when the host is in a hurry, is answered with an error and ended. What
// is parked ends at once: the request that takes it up would be refused. Work of our own,
// such as a script, ends once nobody can read its answer; calls may have to take effect
// and go on. gone says whether the client cannot read any more, and failed is closed
// when it cannot be written to; both may be nil.
func (c *connection) drain(timeout time.Duration, failed <-chan struct{}, gone func() bool) error {
	c.stopStreams()
	c.endParked("metamcp ends: nobody can take the call up any more")
	idle := make(chan struct{})
	go func() {
		c.running.Wait()
		close(idle)
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	look := time.NewTicker(lookForReader)
	defer look.Stop()
	why := "were not answered before the time was over that the host had to end"
	if timeout > 0 {
		why = fmt.Sprintf("were not answered within %v after the session began to end", timeout)
	}
	for waiting := true; waiting; {
		select {
		case <-idle:
			return nil
		case <-look.C:
			if gone != nil && gone() {
				look.Stop()
				c.stopWork()
			}
		case <-failed:
			why = "were not answered when the client could not be written to any more"
			waiting = false
		case <-c.opts.Hurry:
			why = "were not answered before the host was told to end at once"
			waiting = false
		case <-timer.C:
			waiting = false
		}
	}
	cut := c.abandon()
	timer.Reset(flushTimeout)
	select {
	case <-idle:
	case <-timer.C:
		if cut == 0 {
			return errors.New("some handlers still run, although no request is open any more")
		}
		return fmt.Errorf("%d requests %s, and some of their handlers still run", cut, why)
	}
	if cut == 0 {
		return nil
	}
	return fmt.Errorf("%d requests %s", cut, why)
}

// stopStreams ends the requests that would never end by themselves.
func (c *connection) stopStreams() {
	c.mu.Lock()
	entries := c.table.Entries()
	c.mu.Unlock()
	for _, e := range entries {
		if e.Stream {
			e.Stop()
		}
	}
}

// stopWork ends what mcp-go works on, without an answer.
func (c *connection) stopWork() {
	c.mu.Lock()
	entries := c.table.Entries()
	for _, e := range entries {
		if e.Stop != nil {
			c.table.GiveUp(e)
		}
	}
	c.mu.Unlock()
	for _, e := range entries {
		if e.Stop != nil {
			e.out.Drop()
			e.Stop()
		}
	}
}

// giveUpAll cancels all requests in flight; none gets an answer.
func (c *connection) giveUpAll(why string) {
	c.mu.Lock()
	entries := c.table.Entries()
	for _, e := range entries {
		c.table.GiveUp(e)
	}
	c.mu.Unlock()
	for _, e := range entries {
		c.cancelled(e, why)
	}
}

// abandon answers all requests that are still in flight with an error.
func (c *connection) abandon() int {
	c.mu.Lock()
	entries := c.table.Entries()
	for _, e := range entries {
		c.table.GiveUp(e)
	}
	c.mu.Unlock()
	for _, e := range entries {
		_ = e.out.Answer(c.failure(e, shutDown(e)))
		if e.Stop != nil {
			e.Stop()
			continue
		}
		c.opts.Engine.Cancel(c.opts.Session, e.Call, "the session ended")
		c.running.Done()
	}
	return len(entries)
}

// shutDown is the answer to a request that was in flight when metamcp ended.
func shutDown(e *Entry) *messages.Error {
	if e.reads {
		return &messages.Error{
			Code: messages.CodeShuttingDown, Message: "metamcp shut down before it answered this request, which changes nothing",
			Hint: "Send it again once metamcp runs again.", Retryable: true,
		}
	}
	what := "the server"
	if e.Stop != nil {
		what = "it"
	}
	return &messages.Error{
		Code: messages.CodeShuttingDown, Message: "metamcp shut down before " + what + " answered; whether it did its work is unknown",
		Hint: "Check what it has done before you repeat the request.",
	}
}
