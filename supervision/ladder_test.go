package supervision_test

import (
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp/supervision"
)

const ms = time.Millisecond

func TestLadderDefault(t *testing.T) {
	want := []supervision.Step{
		{Do: supervision.MoveCloseInput, Wait: 50 * ms},
		{Do: supervision.MoveTerminate, Wait: 100 * ms},
		{Do: supervision.MoveLook, Wait: 200 * ms},
		{Do: supervision.MoveLook, Wait: 400 * ms},
		{Do: supervision.MoveLook, Wait: 800 * ms},
		{Do: supervision.MoveKill, Wait: supervision.ReapWait},
	}
	for _, grace := range []time.Duration{0, -1, supervision.DefaultStopGrace} {
		if got := supervision.Ladder(grace); !slices.Equal(got, want) {
			t.Errorf("grace %v: %v", grace, got)
		}
	}
}

func TestLadderStretches(t *testing.T) {
	for _, grace := range []time.Duration{1, 30, 200 * ms, 1551 * ms, 10 * time.Second, 24 * time.Hour, 1<<63 - 1} {
		steps := supervision.Ladder(grace)
		var sum, terms, kills time.Duration
		for i, s := range steps {
			if s.Wait < 0 {
				t.Errorf("grace %v: step %d waits %v", grace, i, s.Wait)
			}
			switch s.Do {
			case supervision.MoveTerminate:
				terms++
			case supervision.MoveKill:
				kills++
				continue
			case supervision.MoveCloseInput, supervision.MoveLook:
			}
			sum += s.Wait
		}
		if sum != grace || terms != 1 || kills != 1 || steps[len(steps)-1].Do != supervision.MoveKill {
			t.Errorf("grace %v: %v", grace, steps)
		}
	}
	if got := supervision.Ladder(31 * time.Second)[0].Wait; got != time.Second {
		t.Errorf("the closed input is not stretched: %v", got)
	}
}

func TestLadderIsTheCallersOwn(t *testing.T) {
	supervision.Ladder(0)[0].Do = supervision.MoveKill
	if supervision.Ladder(0)[0].Do != supervision.MoveCloseInput {
		t.Error("two ladders share memory")
	}
}
