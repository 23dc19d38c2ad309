package child

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// wideMessage is from which size on a pipe is made larger, once.
const wideMessage = 64 << 10

var lineFeed = []byte{'\n'}

// output is the way to a child's stdin: a direct write while nothing waits,
// and a queue with a goroutine of its own as long as something does.
type output struct {
	file   *os.File
	write  *pipeWriter
	limit  int
	stall  time.Duration
	widen  func()      // called once, before the first message over wideMessage
	failed func(error) // called without any lock, at most once

	mu      sync.Mutex
	queue   [][]byte
	queued  int             // bytes in queue
	err     error           // why nothing is taken any more
	running bool            // the goroutine owns the pipe and the front of the queue
	midway  bool            // a part of what is at the front was written
	corked  *messages.Burst // what is queued waits for its end; nil: for none
	closing bool
	wide    bool
	direct  [4][]byte // scratch of the direct write
	wg      sync.WaitGroup
}

// send takes one message in up to three pieces. See [Process.Send].
func (o *output) send(a, b, c []byte) error {
	pieces := [4][]byte{a, b, c}
	total, last := 0, -1
	for i, p := range pieces[:3] {
		total += len(p)
		if len(p) > 0 {
			last = i
		}
	}
	if last < 0 {
		return nil
	}
	for i := range last {
		pieces[i] = blankBreaks(pieces[i], len(pieces[i]))
	}
	end := pieces[last]
	if end[len(end)-1] != '\n' {
		pieces[3] = lineFeed
		pieces[last] = blankBreaks(end, len(end))
	} else {
		pieces[last] = blankBreaks(end, len(end)-1)
	}

	o.mu.Lock()
	if err := o.refusal(); err != nil {
		o.mu.Unlock()
		return err
	}
	if total > wideMessage && !o.wide {
		o.wide = true
		o.widen()
	}
	if o.running || o.corked != nil {
		o.enqueue(pieces[:], 0)
		var err error
		if o.corked != nil && (len(o.queue) >= corkedPieces || o.queued >= corkedBytes) {
			err = o.uncork()
		}
		o.mu.Unlock()
		if err != nil {
			o.failed(err)
		}
		return err
	}
	o.direct = pieces
	n, err := o.write.try(o.direct[:])
	o.direct = [4][]byte{}
	if err != nil {
		o.err = err
		o.mu.Unlock()
		o.failed(err)
		return err
	}
	o.enqueue(pieces[:], n)
	o.midway = n > 0 && len(o.queue) > 0
	o.drainRest()
	o.mu.Unlock()
	return nil
}

// drainRest starts the goroutine where something is queued. o.mu is held.
func (o *output) drainRest() {
	if len(o.queue) > 0 {
		o.running = true
		o.wg.Add(1)
		go o.drain()
	}
}

// What is held back at most: a longer burst goes out in parts. A message has up to
// four pieces, a small one that ends with its line feed is one.
const (
	corkedPieces = 32
	corkedBytes  = 32 << 10
)

// cork is [Process.Cork].
func (o *output) cork(b *messages.Burst) {
	o.mu.Lock()
	var err error
	if o.corked != b {
		err = o.uncork()
	}
	if o.corked == nil && !o.running && o.refusal() == nil && b.Hold(o) {
		o.corked = b
	}
	o.mu.Unlock()
	if err != nil {
		o.failed(err)
	}
}

// Uncork implements [messages.Corked].
func (o *output) Uncork() {
	o.mu.Lock()
	err := o.uncork()
	o.mu.Unlock()
	if err != nil {
		o.failed(err)
	}
}

// uncork writes what is held back; o.mu is held. Of an error o.failed is to be told
// once it is not.
func (o *output) uncork() error {
	waits := o.corked != nil && o.err == nil && len(o.queue) > 0
	o.corked = nil
	if !waits {
		return nil
	}
	var n int
	if n, o.err = o.write.try(o.queue); o.err != nil {
		return o.err
	}
	if n == o.queued { // nearly always, and the list serves again
		clear(o.queue)
		o.queue, o.queued = o.queue[:0], 0
		return nil
	}
	o.consume(n)
	o.drainRest()
	return nil
}

func (o *output) refusal() error {
	switch {
	case o.err != nil:
		return o.err
	case o.closing:
		return ErrInputClosed
	case o.queued > o.limit:
		return ErrBacklog
	}
	return nil
}

// enqueue queues what follows the first done bytes of pieces.
func (o *output) enqueue(pieces [][]byte, done int) {
	for _, p := range pieces {
		if done >= len(p) {
			done -= len(p)
			continue
		}
		o.queue = append(o.queue, p[done:])
		o.queued += len(p) - done
		done = 0
	}
}

// drain writes until the queue is empty or the pipe fails.
func (o *output) drain() {
	defer o.wg.Done()
	for {
		o.mu.Lock()
		if len(o.queue) == 0 || o.err != nil {
			if o.err == nil { // else somebody may ask what was not written
				o.queue, o.queued = nil, 0
			}
			o.running = false
			_ = o.file.SetWriteDeadline(time.Time{})
			if o.closing {
				_ = o.file.Close()
			}
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()

		_ = o.file.SetWriteDeadline(time.Now().Add(o.stall))
		err := o.write.wait()
		if err == nil {
			continue
		}
		o.mu.Lock()
		if o.err != nil {
			o.mu.Unlock()
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrWriteStalled
		}
		o.err = err
		o.mu.Unlock()
		o.failed(err)
	}
}

// front is what the goroutine writes next with one call; o.mu is held.
func (o *output) front() [][]byte {
	const most = 64 // pieces for one write
	if o.err != nil {
		return nil
	}
	return o.queue[:min(len(o.queue), most)]
}

// consume takes what was written from the queue; o.mu is held.
func (o *output) consume(n int) {
	o.queued -= n
	for n > 0 {
		if n < len(o.queue[0]) {
			o.queue[0] = o.queue[0][n:]
			o.midway = true
			return
		}
		o.midway = !endsMessage(o.queue[0])
		n -= len(o.queue[0])
		o.queue[0] = nil
		o.queue = o.queue[1:]
	}
}

// endsMessage says whether a piece is the last one of its message: no other has a line
// feed at its end.
func endsMessage(piece []byte) bool { return piece[len(piece)-1] == '\n' }

// retract is [Process.Retract].
func (o *output) retract() (requests []json.RawMessage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.corked = nil
	kept, begun := 0, o.midway
	for first := 0; first < len(o.queue); {
		last := first
		for !endsMessage(o.queue[last]) {
			last++
		}
		head, tail := o.queue[first], o.queue[last]
		first = last + 1
		if begun {
			kept, begun = first, false
			continue
		}
		id := jsonrpc.RequestID(head[:min(len(head), jsonrpc.IDWindow)], tail[max(len(tail)-jsonrpc.IDWindow, 0):])
		if id != nil {
			requests = append(requests, id)
		}
	}
	for _, piece := range o.queue[kept:] {
		o.queued -= len(piece)
	}
	clear(o.queue[kept:])
	o.queue = o.queue[:kept]
	return requests
}

// closeInput closes the pipe once what is queued was written.
func (o *output) closeInput() {
	o.mu.Lock()
	if o.closing {
		o.mu.Unlock()
		return
	}
	o.closing = true
	err := o.uncork()
	if !o.running {
		_ = o.file.Close()
	}
	o.mu.Unlock()
	if err != nil {
		o.failed(err)
	}
}

// stop drops what is queued, closes the pipe and waits for the goroutine.
func (o *output) stop() {
	o.mu.Lock()
	o.closing = true
	if o.err == nil {
		o.err = ErrInputClosed
	}
	o.corked = nil
	o.mu.Unlock()
	_ = o.file.Close() // which waits for a write, and that for o.mu
	o.wg.Wait()
	o.mu.Lock()
	o.queue, o.queued = nil, 0
	o.mu.Unlock()
}

// blankBreaks returns p without line feeds and carriage returns, at which some servers
// end a line as well, in its first n bytes. Where JSON is valid they can only be blanks
// between tokens, so blanks take their place, in a copy: others may read p.
func blankBreaks(p []byte, n int) []byte {
	if bytes.IndexByte(p[:n], '\n') < 0 && bytes.IndexByte(p[:n], '\r') < 0 {
		return p
	}
	q := bytes.Clone(p)
	for i, c := range q[:n] {
		if c == '\n' || c == '\r' {
			q[i] = ' '
		}
	}
	return q
}
