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
	shared := NewTurns(1, 100)
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
	wantNobody(t, shared)
}

// wantNobody checks that nobody has a turn or waits for one.
func wantNobody(t *testing.T, shared *Turns) {
	t.Helper()
	if shared.free != 1 || shared.asked != 0 || len(shared.order) > 0 || len(shared.waiting) > 0 || len(shared.asking) > 0 {
		t.Errorf("left over: %d free, %d asked, %v, %v, %v", shared.free, shared.asked, shared.order, shared.waiting, shared.asking)
	}
}

func waiting(t *Turns, session uint64, n int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting[session]) == n
}

// TestTurnsOfThoseWhoGiveUp: they hold none, and the others' come in order.
func TestTurnsOfThoseWhoGiveUp(t *testing.T) {
	shared := NewTurns(1, 100)
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
	wantNobody(t, shared)
}

// TestTurnsAreBounded: one client cannot take the places of all.
func TestTurnsAreBounded(t *testing.T) {
	shared := NewTurns(1, 4)
	var overs []func()
	ask := func(client uint64) error {
		_, over, err := shared.Queue(client)
		if err == nil {
			overs = append(overs, over)
		}
		return err
	}
	for i, want := range []struct {
		client uint64
		err    error
	}{{1, nil}, {1, nil}, {1, ErrTooManyWait}, {2, nil}, {1, ErrTooManyWait}, {3, nil}, {4, ErrTooManyWait}} {
		if err := ask(want.client); !errors.Is(err, want.err) {
			t.Errorf("client %d, which is the %d. to ask: %v, want %v", want.client, i+1, err, want.err)
		}
	}
	if _, err := shared.Enter(t.Context(), 4); !errors.Is(err, ErrTooManyWait) {
		t.Errorf("entering where no place is left: %v", err)
	}
	overs[1]() // it waited
	if err := ask(4); err != nil {
		t.Errorf("the place of one who gave up: %v", err)
	}
	overs[0]() // it had the turn
	if err := ask(1); err != nil {
		t.Errorf("the place of one whose turn is over: %v", err)
	}
	for _, over := range overs[2:] {
		over()
	}
	wantNobody(t, shared)
}
