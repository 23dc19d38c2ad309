package kernel

import "sync"

// workers counts the goroutines of a system. A sync.WaitGroup would not do:
// workers are still asked for while the system shuts down, and an Add beside a
// Wait that sees zero is a misuse of it.
type workers struct {
	mu      sync.Mutex
	running int
	ending  bool
	over    bool          // ending, and the last one has ended
	none    chan struct{} // closed when over
}

func newWorkers() *workers { return &workers{none: make(chan struct{})} }

// add takes one more on; false: the last one has ended, and nobody would wait
// for this one.
func (w *workers) add() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	w.running++
	return true
}

func (w *workers) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.settle()
}

// end makes the moment at which none runs the last one. Until then those that
// run may still start others, which are waited for as well.
func (w *workers) end() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = true
	w.settle()
	return w.none
}

func (w *workers) settle() {
	if w.ending && w.running == 0 && !w.over {
		w.over = true
		close(w.none)
	}
}
