package store

import (
	"fmt"
	"runtime/debug"
)

// A panicked is a panic that was caught at the edge to badger.
type panicked struct{ value any }

func (p *panicked) Error() string {
	return fmt.Sprintf("the database failed unexpectedly: %v", p.value)
}

// A guard runs code of badger's. A panic in it, and a fault on a mapped file,
// become errors; a panic in the caller's own callback stays one.
type guard struct{ calling bool }

func (g *guard) run(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if g.calling {
			return
		}
		if p := recover(); p != nil {
			err = &panicked{p}
		}
	}()
	return fn()
}

// call runs the caller's code inside run.
func (g *guard) call(fn func() error) error {
	g.calling = true
	err := fn()
	g.calling = false
	return err
}

// guarded runs code that calls nobody back.
func guarded(fn func() error) error { return new(guard).run(fn) }
