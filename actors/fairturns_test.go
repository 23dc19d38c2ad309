package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestTurnsGoRoundTheClients: however many searches of one client wait, another's is
// behind one of them.
func TestTurnsGoRoundTheClients(t *testing.T) {
	shared := NewTurns(1)
	done, err := shared.Enter(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	type turn struct {
		who  string
		done func()
	}
	began := make(chan turn)
	waits := func(session uint64, n int) {
		for i := range n {
			go func() {
				done, err := shared.Enter(context.Background(), session)
				if err != nil {
					t.Error(err)
				}
				began <- turn{fmt.Sprintf("%d.%d", session, i), done}
			}()
			for !waiting(shared, session, i+1) { // so that they come in this order
				if t.Context().Err() != nil {
					return
				}
			}
		}
	}
	waits(1, 5)
	waits(2, 2)
	waits(3, 1)
	var order []string
	for range 8 {
		done()
		next := <-began
		done = next.done
		order = append(order, next.who)
	}
	done()
	if want := []string{"1.0", "2.0", "3.0", "1.1", "2.1", "1.2", "1.3", "1.4"}; !slices.Equal(order, want) {
		t.Errorf("the turns went to %v, want %v", order, want)
	}
	if shared.free != 1 || len(shared.order) > 0 || len(shared.waiting) > 0 {
		t.Errorf("left over: %d free, %v, %v", shared.free, shared.order, shared.waiting)
	}
}

func waiting(t *Turns, session uint64, n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting[session]) == n
}

// TestTurnsOfThoseWhoGiveUp: they hold none, and the others' come in order.
func TestTurnsOfThoseWhoGiveUp(t *testing.T) {
	shared := NewTurns(1)
	done, err := shared.Enter(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for session := range uint64(3) {
		if _, err := shared.Enter(gone, session); !errors.Is(err, context.Canceled) {
			t.Errorf("session %d: %v", session, err)
		}
	}
	done()
	if shared.free != 1 || len(shared.order) > 0 || len(shared.waiting) > 0 {
		t.Errorf("left over: %d free, %v, %v", shared.free, shared.order, shared.waiting)
	}
}
