package actors

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// unlister is a server whose children list their tools as those of a grower do, until they
// are told to do so no more.
type unlister struct {
	grower
	from atomic.Int64 // the first start that does not list; 0: all do
	how  string       // silent, or no list: nobody understands it; else they refuse it
}

func (u *unlister) script() *script {
	s := u.grower.script()
	grown := s.answers
	s.answers = func(l *fakeLink, m rpcLine) bool {
		if from := u.from.Load(); m.Method != methodToolsList || from == 0 || int64(l.n) < from {
			return grown(l, m)
		}
		switch u.how {
		case "silent":
		case "no list":
			l.answer(m.ID, `{"tools":7}`)
		case "not known":
			l.refuse(m.ID, "method not found")
		default:
			l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32603,"message":"not today"}}`)
		}
		return true
	}
	return s
}

// TestAChildThatDoesNotListHoldsUpNoOthersCalls: what another child of the server has listed
// decides which of its clients' calls are refused, and at once.
func TestAChildThatDoesNotListHoldsUpNoOthersCalls(t *testing.T) {
	for _, how := range []string{"silent", "refused", "refused after an announcement"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, nil)
			u := &unlister{how: how}
			u.from.Store(2)
			r.add("a", u.script(), func(s *messages.ServerSpec) {
				scoped(s)
				s.Timeout = 2 * soon
			})
			first, second := r.session(), r.session()
			r.wantResult(r.wait(r.by(first, "a", "echo")))
			r.wantCode(r.wait(r.as(first, "a", "nothere", `{}`)), messages.CodeToolNotFound) // its listing is there
			r.wantResult(r.wait(r.by(second, "a", "echo")))
			if how == "refused after an announcement" {
				r.wantResult(r.wait(r.by(second, "a", "changed")))
			}
			for range 3 {
				err := r.wantCode(r.wait(r.as(first, "a", "typed", `{"n":"x"}`)), messages.CodeValidation)
				if len(err.Details) == 0 || !strings.Contains(err.Details[0], "n") {
					t.Errorf("it does not say which argument is wrong: %+v", err)
				}
				r.wantCode(r.wait(r.as(first, "a", "nothere", `{}`)), messages.CodeToolNotFound)
				r.wantCode(r.wait(r.as(second, "a", "nothere", `{}`)), messages.CodeToolNotFound)
			}
			r.wantResult(r.wait(r.by(first, "a", "echo")))
		})
	}
}

// TestAnAnnouncedChangeIsNotListed: calls are refused by what was listed before, which they
// say, and no call waits. It is tried again for them, and what it lists then holds.
func TestAnAnnouncedChangeIsNotListed(t *testing.T) {
	for how, why := range map[string]string{"silent": "did not answer tools/list", "refused": "not today", "no list": "is not understood"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, nil)
			u := &unlister{how: how}
			r.add("a", u.script(), func(s *messages.ServerSpec) {
				if how == "silent" {
					s.Timeout = 3 * time.Second
				}
			})
			r.ok("a")
			r.wantCode(r.do("a", "new1", doArgs{}), messages.CodeToolNotFound)
			u.from.Store(1)
			r.grow("a")
			old := func(err *messages.Error) {
				t.Helper()
				if !strings.Contains(err.Message, "has announced a change of its tools since") || !strings.Contains(err.Message, why) {
					t.Errorf("it does not say that it is by an old list: %+v", err)
				}
			}
			for range 3 {
				old(r.wantCode(r.do("a", "typed", doArgs{}, withArgs(`{"n":"x"}`)), messages.CodeValidation))
				err := r.wantCode(r.do("a", "new1", doArgs{}), messages.CodeToolNotFound)
				if old(err); !err.Retryable {
					t.Error("it is not said that another try may help")
				}
			}
			entry, _ := r.e.Directory().Lookup("a")
			if entry.Behind() {
				t.Error("it is waited for a change of which it is known that it was not listed")
			}
			u.from.Store(0)
			r.f.eventually(t, "the new tool is called", func() bool { return r.do("a", "new1", doArgs{}).Err == nil })
			err := r.wantCode(r.do("a", "new2", doArgs{}), messages.CodeToolNotFound)
			if err.Retryable || strings.Contains(err.Message, "announced") || entry.Missed() != nil {
				t.Errorf("it still says that its list is old: %+v", err)
			}
		})
	}
}

// TestAnUnlistedChangeIsTriedAgainAtAPace, however many calls miss it.
func TestAnUnlistedChangeIsTriedAgainAtAPace(t *testing.T) {
	r := newRig(t, nil)
	u := &unlister{}
	r.add("a", u.script(), nil)
	r.ok("a")
	r.wantCode(r.do("a", "new1", doArgs{}), messages.CodeToolNotFound)
	u.from.Store(1)
	r.grow("a")
	r.wantCode(r.do("a", "new1", doArgs{}), messages.CodeToolNotFound)
	began, before := time.Now(), len(r.f.lines("a", methodToolsList))
	for range 500 {
		r.wantCode(r.do("a", "new1", doArgs{}), messages.CodeToolNotFound)
	}
	most := 2 + int(time.Since(began)/firstPause)
	if n := len(r.f.lines("a", methodToolsList)) - before; n > most {
		t.Errorf("it was asked %d times for 500 calls, want %d at most", n, most)
	}
}

// TestAnUnlistedChangeIsTriedAgain, though nobody calls.
func TestAnUnlistedChangeIsTriedAgain(t *testing.T) {
	for _, how := range []string{"refused", "no list", "not known"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, nil)
			u := &unlister{how: how}
			r.add("a", u.script(), nil)
			r.ok("a")
			r.wantCode(r.do("a", "new1", doArgs{}), messages.CodeToolNotFound)
			before := len(r.f.lines("a", methodToolsList))
			u.from.Store(1)
			r.grow("a")
			r.got("a", methodToolsList, before+2)
			u.from.Store(0)
			r.f.eventually(t, "the new tool is known", func() bool { return r.e.view.Load().Server("a").Tool("new1") != nil })
		})
	}
}

// TestNextChildThatDoesNotList: what its server listed before it was started refuses nothing.
func TestNextChildThatDoesNotList(t *testing.T) {
	r := newRig(t, nil)
	u := &unlister{}
	r.add("a", u.script(), func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	r.ok("a")
	r.wantCode(r.do("a", "nothere", doArgs{}), messages.CodeToolNotFound)
	u.from.Store(2)
	crash := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	next := r.start("a", "do", doArgs{}) // waits, and has it started again
	r.f.living("a")[0].crash()
	r.wantCode(r.wait(crash), messages.CodeToolExecution)
	r.wantResult(r.wait(next))
	for range 3 {
		r.wantCode(r.do("a", "nothere", doArgs{}), messages.CodeConnection)
	}
	if entry, _ := r.e.Directory().Lookup("a"); r.f.started("a") != 2 || entry.Missed() != nil {
		t.Errorf("%d starts, and its start is taken for a change", r.f.started("a"))
	}
}
