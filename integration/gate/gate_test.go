package gate_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/gate"
)

func isEmpty(empty <-chan struct{}) bool {
	select {
	case <-empty:
		return true
	default:
		return false
	}
}

func TestAClosedGateLetsOutAlone(t *testing.T) {
	var g gate.Gate
	for range 2 {
		if !g.Enter() || g.Closed() {
			t.Fatal("an open gate does not let in")
		}
	}
	g.Leave()
	empty := g.Close()
	if g.Enter() || !g.Closed() {
		t.Error("a closed gate lets in")
	}
	if isEmpty(empty) {
		t.Error("empty, and one is inside")
	}
	if g.Close() != empty {
		t.Error("a second Close waits for something else")
	}
	g.Leave()
	if !isEmpty(empty) || !isEmpty(g.Close()) {
		t.Error("not empty, and all have left")
	}
}

func TestAGateThatNobodyPassedIsEmptyAtOnce(t *testing.T) {
	var g gate.Gate
	if !isEmpty(g.Close()) {
		t.Error("not empty")
	}
}

func TestNobodyIsInsideOfAnEmptyGate(t *testing.T) {
	const guests = 50
	var (
		g      gate.Gate
		inside atomic.Int64
		wg     sync.WaitGroup
	)
	for range guests {
		wg.Go(func() {
			for g.Enter() {
				inside.Add(1)
				inside.Add(-1)
				g.Leave()
			}
		})
	}
	select {
	case <-g.Close():
		if n := inside.Load(); n != 0 {
			t.Errorf("%d are inside", n)
		}
	case <-time.After(time.Minute):
		t.Error("never empty")
	}
	wg.Wait()
}
