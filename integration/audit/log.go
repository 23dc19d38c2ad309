package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// problemEvery is how often OnProblem is told at most.
const problemEvery = time.Minute

// The log waits gatherTime for more entries before it writes, or until so many are
// gathered: room for not many more is used again, and none is made for each batch.
const (
	gatherTime = 20 * time.Millisecond
	gathered   = 1024
	keptRoom   = 2 * gathered
)

// Log is an audit log that is being written. A nil Log takes everything and
// writes nothing, for hosts whose log is off.
type Log struct {
	o    Options
	path string
	w    writer
	lock *os.File

	mu      sync.Mutex
	pending []Entry
	spare   []Entry
	bytes   int // of the arguments in pending
	lost    uint64
	ended   bool

	wake    chan struct{} // capacity 1
	urgent  chan struct{} // capacity 1: gather no longer
	closing chan struct{}
	done    chan struct{}
	err     error // of the end; after done

	told time.Time // OnProblem was, last
}

// Open opens the log and starts its goroutine, which [Log.Close] ends. The
// error says what keeps the log from being written; a full disk is no error,
// since it may have room again.
func Open(o Options) (*Log, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the audit log: %w", err)
	}
	path, lock, err := take(o.Path)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	l := &Log{o: o, path: path, lock: lock, wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	l.w = writer{o: &l.o, path: path}
	err = l.w.ready()
	if err == nil {
		err = l.w.open()
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return nil, errors.Join(err, unlock(lock))
	}
	go l.run()
	return l, nil
}

// Path returns the file that is written: that of the options, or another one
// beside it where a second host runs. "" for a nil Log.
func (l *Log) Path() string {
	if l == nil {
		return ""
	}
	return l.path
}

// Append hands over one call, script or decision. It never waits for the
// disk; what finds no room in the queue is counted, and a gap entry says how
// much that was. After Close it does nothing. It may be called from every
// goroutine.
func (l *Log) Append(e Entry) {
	if l == nil {
		return
	}
	if e.Kind != KindProvision && e.Kind != KindExecute && e.Kind != KindPins {
		e.Kind = KindCall
	}
	if e.Time.IsZero() {
		e.Time = l.o.Now()
	}
	l.mu.Lock()
	switch {
	case l.ended:
	case !room(l.o.Queue, len(l.pending), l.bytes, len(e.Args)):
		l.lost++
	default:
		l.pending = append(l.pending, e)
		l.pending[len(l.pending)-1].Bound() // e itself would be allocated for it
		l.bytes += len(e.Args)
		if len(l.pending) == min(l.o.Queue/4, gathered) || l.bytes > maxQueuedBytes/4 {
			select {
			case l.urgent <- struct{}{}:
			default:
			}
		}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Room reports whether an entry with more bytes of arguments may wait with n others,
// which have so many, for a log that is not open yet: as many as may wait in one that is,
// which has room for all of them then.
func Room(n, bytes, more int) bool { return room(DefaultQueue, n, bytes, more) }

// room is the bound of what waits. One entry always may.
func room(queue, n, bytes, more int) bool {
	return n < queue && (n == 0 || bytes+more <= maxQueuedBytes)
}

// Missed counts entries that found no room while they waited for the log to be opened: a
// gap entry says how many they are. It may be called from every goroutine.
func (l *Log) Missed(n uint64) {
	if l == nil || n == 0 {
		return
	}
	l.mu.Lock()
	if !l.ended {
		l.lost += n
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Close writes what is queued and a stop entry, and waits for that until ctx
// ends. The error says what could not be written. A second Close returns the
// same.
func (l *Log) Close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if !l.ended {
		l.ended = true
		close(l.closing)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("close the audit log: the disk does not answer: %w", ctx.Err())
	}
}

// take returns what is pending, and then a gap where something was lost.
func (l *Log) take() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := l.pending
	if l.lost > 0 {
		batch = append(batch, Entry{Kind: KindGap, Time: l.o.Now(), lost: l.lost})
	}
	l.pending, l.spare, l.bytes, l.lost = l.spare[:0], nil, 0, 0
	return batch
}

// give returns a batch that take gave, to be used again.
func (l *Log) give(batch []Entry) {
	if cap(batch) > keptRoom {
		return
	}
	clear(batch)
	l.mu.Lock()
	l.spare = batch[:0]
	l.mu.Unlock()
}

// run is the log's goroutine.
func (l *Log) run() {
	defer close(l.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	synced := time.Now()
	whole := []Entry{{Kind: KindStart, Time: l.o.Started}}
	rest := whole
	for {
		if len(rest) == 0 {
			l.give(whole)
			whole = l.take()
			rest = whole
			l.tellOfGap(whole)
		}
		var wait time.Duration // 0: until there is something
		if len(rest) > 0 {
			n, err := l.w.write(rest)
			rest = rest[n:]
			if err != nil {
				l.problem(err)
				wait = l.o.retry
			}
		}
		if l.w.unsynced {
			if time.Since(synced) >= l.o.syncEvery {
				synced = time.Now()
				l.problem(l.w.sync())
			}
			if wait == 0 && l.w.unsynced {
				wait = max(time.Millisecond, l.o.syncEvery-time.Since(synced))
			}
		}
		if wait > 0 {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
		wake := l.wake
		if len(rest) > 0 {
			wake = nil // not before the disk had time to recover
		}
		select {
		case <-wake:
			l.gather(timer)
		case <-timer.C:
		case <-l.closing:
			l.end(rest)
			return
		}
	}
}

// gather waits for more entries: one by one, each would cost a wake-up and a
// write, which is more than the call that it tells of.
func (l *Log) gather(timer *time.Timer) {
	timer.Reset(gatherTime)
	select {
	case <-timer.C:
	case <-l.urgent:
	case <-l.closing:
	}
}

// end writes what is left.
func (l *Log) end(rest []Entry) {
	all := append(rest, l.take()...)
	all = append(all, Entry{Kind: KindStop, Time: l.o.Now()})
	n, err := l.w.write(all)
	if err != nil {
		err = fmt.Errorf("%d entries of the audit log could not be written: %w", len(all)-n, err)
	}
	l.err = errors.Join(err, l.w.close(), unlock(l.lock))
}

func (l *Log) tellOfGap(batch []Entry) {
	if n := len(batch); n > 0 && batch[n-1].Kind == KindGap {
		l.problem(fmt.Errorf("%d entries found no room in the audit log's queue; a gap entry says so", batch[n-1].lost))
	}
}

func (l *Log) problem(err error) {
	now := time.Now()
	if err == nil || l.o.OnProblem == nil || !l.told.IsZero() && now.Sub(l.told) < problemEvery {
		return
	}
	l.told = now
	l.o.OnProblem(err)
}
