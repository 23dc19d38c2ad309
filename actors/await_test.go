package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// refusedAtTheEnd holds what somebody waits for, without a bound of its own, to end
// with the runtime.
func refusedAtTheEnd(t *testing.T, what string, wait func(ctx context.Context) error) {
	t.Helper()
	said := make(chan error, 1)
	go func() { said <- wait(context.WithoutCancel(t.Context())) }()
	isRefused(t, what, said)
}

func isRefused(t *testing.T, what string, said <-chan error) {
	t.Helper()
	var err error
	select {
	case err = <-said:
	case <-time.After(soon):
		t.Fatalf("%s waits although the runtime has ended", what)
	}
	var own *messages.Error
	if !errors.As(err, &own) || own.Code != messages.CodeShuttingDown {
		t.Errorf("%s says %v", what, err)
	}
}

// Whoever waits for an actor's answer hears that the runtime has ended.
func TestNobodyWaitsForAnEndedRuntime(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.close()
	refusedAtTheEnd(t, "Apply", func(ctx context.Context) error { return r.e.Apply(ctx, Change{All: r.all()}) })
	refusedAtTheEnd(t, "PoolStats", func(ctx context.Context) error {
		_, err := r.e.PoolStats(ctx)
		return err
	})
	refusedAtTheEnd(t, "Settle", r.e.Settle)
	said := make(chan error, 1)
	r.e.Subscribe(&Subscribe{Topic: Topic{Server: "a", URI: "u"}, As: "u", Reply: func(failure *messages.Answer) { said <- failure.Err }})
	isRefused(t, "Subscribe", said)
}

// slowKeeper reads what was accepted once it may.
type slowKeeper struct {
	*memoryKeeper
	reads, may chan struct{}
}

func (k *slowKeeper) Load(server string) messages.Accepted {
	close(k.reads)
	<-k.may
	return k.memoryKeeper.Load(server)
}

// What the index was reading for a change is lost with the index, and the change ends.
func TestAChangeThatIsBeingReadEndsWithTheRuntime(t *testing.T) {
	k := &slowKeeper{newMemoryKeeper(), make(chan struct{}), make(chan struct{})}
	r := newRigWith(t, nil, keptBy(k))
	r.e.SetPins(messages.PinsWarn)
	added := []*messages.ServerSpec{spec("a", nil)}
	said := make(chan error, 1)
	go func() { said <- r.e.Apply(context.WithoutCancel(t.Context()), Change{All: added, Added: added}) }()
	<-k.reads
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.close()
	}()
	isRefused(t, "Apply", said)
	close(k.may) // Close waits for it
	<-closed
}

// So does what is asked of actors that did not stop in time; what was said before
// that counts.
func TestAwaitOfActorsThatDoNotStop(t *testing.T) {
	e := &Engine{left: make(chan struct{})}
	close(e.left)
	refusedAtTheEnd(t, "await", func(ctx context.Context) error {
		_, err := await(ctx, e, make(chan int))
		return err
	})
	for range 100 { // either may be seen first
		reply := make(chan int, 1)
		reply <- 7
		if n, err := await(t.Context(), e, reply); n != 7 || err != nil {
			t.Fatalf("it gets %d, %v", n, err)
		}
	}
}
