// Package gate lets an end wait for what runs, and lets nothing begin after it.
package gate

import "sync"

// Gate counts who is inside. It is open at first; the zero value is ready, and is safe
// for any goroutine.
type Gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // nil while the gate is open; closed when nobody is inside
}

// Enter says whether the gate is open; whoever is let in calls [Gate.Leave] once.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.inside++
	return true
}

// Leave takes back one [Gate.Enter] that said true.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.empty != nil && g.inside == 0 {
		close(g.empty)
	}
}

// Close lets nobody in any more. What it returns is closed when all have left; a second
// call returns the same.
func (g *Gate) Close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty == nil {
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

// Closed says whether [Gate.Close] was called.
func (g *Gate) Closed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.empty != nil
}
