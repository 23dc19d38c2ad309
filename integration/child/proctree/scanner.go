package proctree

import "sync"

// Scanner takes snapshots for many callers: those who ask while a scan runs
// share the next one, so that a hundred trees that end together cost two scans
// and not a hundred. Its zero value is ready; it is safe for any goroutine.
type Scanner struct {
	// Since leaves the environments of processes unread that started before:
	// they cannot be descendants. It is not changed after the first Scan.
	Since uint64
	// List takes the snapshots; nil: [Scan]. It is not changed after the first Scan
	// either.
	List func(since uint64) (Snapshot, error)

	mu      sync.Mutex
	next    *scan
	running bool
}

type scan struct {
	done chan struct{}
	snap Snapshot
	err  error
}

// Scan returns a snapshot that was begun after the call. Nobody may change it.
func (s *Scanner) Scan() (Snapshot, error) {
	c := s.join()
	<-c.done
	return c.snap, c.err
}

// Start begins such a scan, or joins the next one, and returns without waiting
// for it: done is closed when result may be called.
func (s *Scanner) Start() (done <-chan struct{}, result func() (Snapshot, error)) {
	c := s.join()
	return c.done, func() (Snapshot, error) { return c.snap, c.err }
}

func (s *Scanner) join() *scan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &scan{done: make(chan struct{})}
	}
	c := s.next
	if !s.running {
		s.running = true
		go s.run()
	}
	return c
}

// run ends by itself once nobody waits for a scan any more.
func (s *Scanner) run() {
	list := s.List
	if list == nil {
		list = Scan
	}
	for {
		s.mu.Lock()
		c := s.next
		s.next = nil
		if c == nil {
			s.running = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		c.snap, c.err = list(s.Since)
		close(c.done)
	}
}
