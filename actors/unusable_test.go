package actors

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// TestAnswersThatAreOfNoUse: an answer that is broken or too large fails its
// call at once, and no other; the child stays.
func TestAnswersThatAreOfNoUse(t *testing.T) {
	for _, tt := range []struct{ do, message, detail string }{
		{"broken", "cannot be read: it has no end", `the line begins with {"id":`},
		{"huge", "larger than 64 MiB", ""},
	} {
		t.Run(tt.do, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", nil, nil)
			r.ok("a")
			other := r.start("a", "do", doArgs{Do: "delay", Ms: 50})
			err := r.wantCode(r.do("a", "do", doArgs{Do: tt.do}), messages.CodeToolExecution)
			if !strings.Contains(err.Message, tt.message) || err.Tool != "do" {
				t.Errorf("error %+v", err)
			}
			if tt.detail != "" && !slices.ContainsFunc(err.Details, func(d string) bool { return strings.HasPrefix(d, tt.detail) }) {
				t.Errorf("details %q, want %q…", err.Details, tt.detail)
			}
			r.wantResult(r.wait(other))
			r.ok("a")
			if n := r.f.started("a"); n != 1 {
				t.Errorf("%d starts, want 1", n)
			}
		})
	}
}

// TestRequestsInTrouble: a request that a server behind a URL did not answer fails
// alone, is repeated where that is safe, and opens the breaker with others.
func TestRequestsInTrouble(t *testing.T) {
	r := newRig(t, func(s *supervision.PoolSettings) { s.FailureThreshold, s.Cooldown = 2, time.Hour })
	r.add("a", nil, func(s *messages.ServerSpec) { s.URL = "http://a" })
	r.ok("a")
	other := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	for range 4 {
		err := r.wantCode(r.do("a", "do", doArgs{Do: "trouble"}), messages.CodeToolExecution)
		if err.Class != messages.ClassOffline || err.Retryable || !strings.Contains(err.Message, "whether it took effect is unknown") {
			t.Errorf("error %+v", err)
		}
		if err := r.wantCode(r.do("a", "do", doArgs{Do: "refused"}), messages.CodeConnection); err.Class != messages.ClassAuth || err.Retryable {
			t.Errorf("error %+v", err) // which says that the server is there
		}
	}
	r.wantResult(r.do("a", "twice", doArgs{Do: "troubleOnce"}))
	// Its repetition is the second in a row.
	err := r.wantCode(r.do("a", "read", doArgs{Do: "trouble"}), messages.CodeConnection)
	if err.Class != messages.ClassOffline || !err.Retryable {
		t.Errorf("error %+v", err)
	}
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeCircuitOpen)
	r.e.Cancel(other.call, "enough")
	r.wantCode(r.wait(other), messages.CodeCancelled)
	if n := r.f.started("a"); n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

// TestListOfNoUse: a tools/list whose answer is of no use has failed at once.
func TestListOfNoUse(t *testing.T) {
	for _, page := range []string{"broken", "huge"} {
		t.Run(page, func(t *testing.T) {
			b := newBench(t, &script{pages: []string{page}})
			b.send(&messages.Connect{})
			b.heard("ListingFailed", 1)
		})
	}
}

func TestFloatIDs(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.wantResult(r.do("a", "do", doArgs{Do: "float"}))
}
