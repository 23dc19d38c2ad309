package front

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// largePart is the size from which a part of a line is not copied.
const largePart = 32 << 10

var errOutputClosed = errors.New("the output is closed")

// Output is the ordered writer to one client. Its methods may be called from
// any goroutine, and but for Close none of them blocks: a line is written at
// once where the pipe takes it without waiting, and otherwise queued for a
// goroutine of the Output.
type Output struct {
	file    *os.File
	restore func()
	direct  *directWriter // nil where the file knows no write without waiting
	unread  *Unread       // of all clients
	onRoom  onRoom        // may be nil
	full    atomic.Bool
	waits   atomic.Int64 // queued, for who does not hold mu

	patience time.Duration // with a full client that reads nothing

	mu      sync.Mutex
	queue   [][]byte // in order; what cannot be written at once
	tail    bool     // the last of queue is a buffer of ours with room for more
	queued  int      // bytes in queue and in the hands of the goroutine
	busy    bool     // the goroutine writes
	held    bool     // the queue waits for the end of a burst
	closing bool
	err     error
	grown   bool // the pipe was made larger
	crowd   bool // too much waits for all clients

	room  chan struct{} // closed when there is room again; nil: there is
	told  bool          // onRoom needs no call
	read  time.Time     // when the client last read something, while it is full
	stuck *time.Timer   // looks after that

	wake   chan struct{} // one token: something is queued, or closing
	done   chan struct{} // the goroutine has ended
	failed chan struct{} // closed with the first error

	spare   []byte   // an empty buffer for the queue, or nil
	scratch []byte   // one small line, for the direct write
	parts   [][]byte // the parts of one large line, for the direct write
}

// onRoom is called on the goroutine of an Output when a full client has room again; more
// has it called once more when the client has read on.
type onRoom func() (more bool)

// newOutput starts the writer for file. Where file is a FIFO or a socket that
// nothing else of this process shares, it is switched to writes that do not
// wait, until [Output.Close], which must be called.
func newOutput(file *os.File, unread *Unread, onRoom onRoom) *Output {
	own, restore, direct := openDirect(file)
	o := &Output{
		file: own, restore: restore, direct: direct, unread: unread, onRoom: onRoom, told: true, patience: stuckAfter,
		wake: make(chan struct{}, 1), done: make(chan struct{}), failed: make(chan struct{}),
	}
	unread.join(o)
	go o.run()
	return o
}

// Write writes one line: the parts one after the other and a line feed. Parts
// below 32 KiB may be changed by the caller afterwards, larger ones not. The
// error is that of an earlier write, or the output is closed.
func (o *Output) Write(parts ...[]byte) error {
	o.mu.Lock()
	err := o.put(parts)
	o.unlock()
	return err
}

// unlock also makes room where too much waits for all clients.
func (o *Output) unlock() {
	crowd := o.crowd
	o.crowd = false
	o.mu.Unlock()
	if crowd {
		o.unread.relieve()
	}
}

// put is Write; o.mu is held.
func (o *Output) put(parts [][]byte) error {
	size := 1
	for _, p := range parts {
		size += len(p)
	}
	if o.err != nil {
		return o.err
	}
	if o.closing {
		return errOutputClosed
	}
	if size > 64<<10 && !o.grown {
		o.grown = true
		growPipe(o.file)
	}
	if o.held {
		// The end of a burst goes out together with it.
		if err := o.enqueue(parts, size); err != nil {
			return err
		}
		o.writeQueue()
		return o.err
	}
	if o.direct == nil || o.busy || len(o.queue) > 0 {
		if err := o.enqueue(parts, size); err != nil {
			return err
		}
		o.signal()
		return nil
	}
	if size < largePart {
		o.scratch = o.scratch[:0]
		for _, p := range parts {
			o.scratch = append(o.scratch, p...)
		}
		o.scratch = append(o.scratch, '\n')
		n, err := o.direct.write(o.scratch)
		return o.written([][]byte{o.scratch}, size, n, err)
	}
	o.parts = append(append(o.parts[:0], parts...), newline)
	n, err := o.direct.writev(o.parts)
	err = o.written(o.parts, size, n, err)
	clear(o.parts)
	return err
}

var newline = []byte{'\n'}

// written queues what a direct write left over.
func (o *Output) written(parts [][]byte, size, n int, err error) error {
	if err != nil {
		return o.fail(fmt.Errorf("writing to the client: %w", err))
	}
	if n == size {
		return nil
	}
	if err := o.reserve(size - n); err != nil {
		return err
	}
	for _, p := range parts {
		if n >= len(p) {
			n -= len(p)
			continue
		}
		o.add(p[n:])
		n = 0
	}
	o.signal()
	return nil
}

func (o *Output) enqueue(parts [][]byte, size int) error {
	if err := o.reserve(size); err != nil {
		return err
	}
	for _, p := range parts {
		o.add(p)
	}
	o.add(newline)
	return nil
}

func (o *Output) reserve(size int) error {
	if o.queued+size > MaxQueued {
		return o.fail(fmt.Errorf("%w: more than %d MiB wait for it", ErrNotReading, MaxQueued>>20))
	}
	o.count(size)
	o.crowd = o.unread.total.Load() > maxUnread
	return nil
}

// add appends p to the queue, copying it where it is small.
func (o *Output) add(p []byte) {
	if len(p) >= largePart {
		o.queue = append(o.queue, p)
		o.tail = false
		return
	}
	last := len(o.queue) - 1
	if !o.tail || cap(o.queue[last])-len(o.queue[last]) < len(p) {
		// A buffer as large as what already waits: few writes in a burst,
		// little memory for a single line.
		buf := o.spare
		o.spare = nil
		if cap(buf) < len(p) {
			buf = make([]byte, 0, min(max(len(p), 4<<10, o.queued), 64<<10))
		}
		o.queue = append(o.queue, buf)
		o.tail = true
		last++
	}
	o.queue[last] = append(o.queue[last], p...)
}

func (o *Output) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// fail ends the output; o.mu is held.
func (o *Output) fail(err error) error {
	if o.err == nil {
		o.err = err
		o.endWait()
		o.queue, o.tail = nil, false
		o.count(-o.queued)
		close(o.failed)
		o.signal()
	}
	return o.err
}

// heldMost is how much is held back at most; a longer burst goes out in parts.
const heldMost = 32 << 10

// Hold takes one line of a burst. It goes out with the next [Output.Write], or
// with [Output.Release] where none follows. The caller may change line
// afterwards. What goes wrong is met by the next Write.
func (o *Output) Hold(line []byte) {
	o.mu.Lock()
	defer o.unlock()
	if o.err != nil || o.closing || o.reserve(len(line)+1) != nil {
		return
	}
	o.add(line)
	o.add(newline)
	o.held = o.held || !o.busy
	if o.queued > heldMost || o.direct == nil {
		o.writeQueue()
	}
}

// Release writes what is held back.
func (o *Output) Release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.writeQueue()
	}
}

// writeQueue writes what is queued, here where that is possible. o.mu is held.
func (o *Output) writeQueue() {
	o.held = false
	if len(o.queue) == 0 {
		return
	}
	if o.direct == nil || o.busy {
		o.signal()
		return
	}
	queue, size, tail := o.queue, o.queued, o.tail
	o.queue, o.tail = nil, false
	o.count(-size)
	n, err := o.direct.writev(queue)
	if o.written(queue, size, n, err) == nil { // an error is kept in o.err
		o.recycle(queue, tail)
	}
}

// mostSpare bounds the buffer that each client's output keeps. What is left over of
// one that is not larger was copied.
const mostSpare = 16 << 10

// recycle keeps the last buffer of a queue that has been written or copied, if it is
// ours: it has room for what waited before it, so that a burst like that one needs no
// other.
func (o *Output) recycle(queue [][]byte, tail bool) {
	last := queue[len(queue)-1]
	if tail && cap(last) > cap(o.spare) && cap(last) <= mostSpare {
		o.spare = last[:0]
	}
}

// Failed is closed when the client cannot be written to any more; [Output.Err]
// then says why.
func (o *Output) Failed() <-chan struct{} { return o.failed }

// Err returns why the output failed, or nil.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// run writes what is queued, in the goroutine of the Output.
func (o *Output) run() {
	defer close(o.done)
	for range o.wake {
		o.mu.Lock()
		for len(o.queue) > 0 && o.err == nil && (!o.held || o.closing) {
			batch, tail := o.queue, o.tail
			o.queue, o.tail, o.busy = nil, false, true
			o.mu.Unlock()
			err := o.writeBatch(batch)
			o.mu.Lock()
			o.busy = false
			if err != nil {
				_ = o.fail(fmt.Errorf("writing to the client: %w", err)) // kept in o.err
				break
			}
			if o.err == nil {
				o.recycle(batch, tail)
			}
		}
		end := o.closing || o.err != nil
		o.mu.Unlock()
		o.tellRoom()
		if end {
			return
		}
	}
}

// atOnce is how much is written before it is noted that the client has read.
const atOnce = 256 << 10

// writeBatch writes parts of the queue, and lets go of each when it is written.
func (o *Output) writeBatch(batch [][]byte) error {
	for i, p := range batch {
		for len(p) > 0 {
			n, err := o.file.Write(p[:min(len(p), atOnce)])
			if err != nil {
				return err
			}
			p = p[n:]
			o.mu.Lock()
			if o.err != nil {
				err = o.err // it was given up
			} else {
				o.read = time.Now()
				o.count(-n)
			}
			o.mu.Unlock()
			if err != nil {
				return err
			}
			o.tellRoom()
		}
		if len(batch) > 1 {
			batch[i] = nil
		}
	}
	return nil
}

// Close writes what is queued, for at most timeout, and gives the file back as
// it was; it does not close it. It returns why lines were lost, or nil. What
// a terminal that is held keeps the goroutine from writing is left behind.
func (o *Output) Close(timeout time.Duration) error {
	o.mu.Lock()
	already := o.closing
	o.closing = true
	o.endWait()
	o.mu.Unlock()
	if already {
		return errOutputClosed
	}
	defer o.unread.part(o)
	_ = o.file.SetWriteDeadline(time.Now().Add(timeout)) // not every file can
	o.signal()
	timer := time.NewTimer(timeout + 100*time.Millisecond)
	defer timer.Stop()
	select {
	case <-o.done:
		o.restore()
		return o.Err()
	case <-timer.C:
		o.mu.Lock()
		defer o.mu.Unlock()
		_ = o.fail(fmt.Errorf("the client did not read the last answers within %v", timeout))
		return o.err
	}
}
