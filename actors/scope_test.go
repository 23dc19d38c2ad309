package actors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func sessionCalls(n int) func(*supervision.PoolSettings) {
	return func(s *supervision.PoolSettings) { s.SessionCalls = n }
}

func scoped(s *messages.ServerSpec) { s.Scope = messages.ScopeSession }

// who is which start of its server answered.
func (r *rig) who(a *messages.Answer) string {
	r.t.Helper()
	r.wantResult(a)
	_, rest, _ := strings.Cut(string(a.Result), "#")
	n, _, _ := strings.Cut(rest, `"`)
	return n
}

// TestSessionHasItsOwnInstance has two clients and calls without one: each keeps its
// instance, and a session's ends with it.
func TestSessionHasItsOwnInstance(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, scoped)
	a, b := r.session(), r.session()
	seen := map[string]string{}
	for range 3 {
		for name, call := range map[string]func() *messages.Answer{
			"a": func() *messages.Answer { return r.wait(r.by(a, "x", "echo")) },
			"b": func() *messages.Answer { return r.wait(r.by(b, "x", "echo")) },
			"-": func() *messages.Answer { return r.do("x", "do", doArgs{}) },
		} {
			got := r.who(call())
			if seen[name] != "" && seen[name] != got {
				t.Errorf("%s was served by %s and %s", name, seen[name], got)
			}
			seen[name] = got
		}
	}
	if seen["a"] == seen["b"] || seen["a"] == seen["-"] || seen["b"] == seen["-"] {
		t.Errorf("instances are shared: %v", seen)
	}
	if n := len(r.f.living("x")); n != 3 {
		t.Errorf("%d live", n)
	}
	owners := map[uint64]int{}
	entry, _ := r.e.Directory().Lookup("x")
	for _, in := range entry.Instances() {
		owners[in.Session]++
	}
	if want := (map[uint64]int{0: 1, a.ID(): 1, b.ID(): 1}); fmt.Sprint(owners) != fmt.Sprint(want) {
		t.Errorf("owners %v, want %v", owners, want)
	}
	a.Close()
	r.f.eventually(t, "the session's instance has ended", func() bool { return len(r.f.living("x")) == 2 })
	if got := r.who(r.wait(r.by(b, "x", "echo"))); got != seen["b"] {
		t.Errorf("b is served by %s, was by %s", got, seen["b"])
	}
}

// TestSessionThatEndsWhileItsInstanceWorks cancels what it does, and ends it.
func TestSessionThatEndsWhileItsInstanceWorks(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, scoped)
	a := r.session()
	p := r.by(a, "x", "silent")
	r.f.eventually(t, "it is there", func() bool { return len(r.f.lines("x", methodToolsCall)) == 1 })
	a.Close()
	r.wantCode(r.wait(p), messages.CodeCancelled)
	r.f.eventually(t, "it has ended", func() bool { return len(r.f.living("x")) == 0 })
}

// TestSessionInstancesAreBoundedByThePool evicts the least recently used one, and
// starts it anew for its session's next call.
func TestSessionInstancesAreBoundedByThePool(t *testing.T) {
	r := newRig(t, places(2))
	r.add("x", nil, scoped)
	var clients []*guest
	for range 3 {
		clients = append(clients, r.session())
	}
	for range 2 {
		for _, c := range clients {
			r.wantResult(r.wait(r.by(c, "x", "echo")))
		}
	}
	if most := r.most(); most > 2 {
		t.Errorf("%d lived at once", most)
	}
	if n := r.f.started("x"); n < 4 {
		t.Errorf("%d starts", n)
	}
}

// TestLossOfOneSessionsInstance leaves the other's alone, and its call goes on while
// the lost one is ended.
func TestLossOfOneSessionsInstance(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, scoped)
	a, b := r.session(), r.session()
	first := r.who(r.wait(r.by(a, "x", "echo")))
	own := r.who(r.wait(r.by(b, "x", "echo")))
	if a := r.wait(r.by(a, "x", "die")); a.Err == nil {
		t.Fatalf("answered %s", a.Result)
	}
	if got := r.who(r.wait(r.by(b, "x", "echo"))); got != own {
		t.Errorf("b is served by %s, was by %s", got, own)
	}
	if got := r.who(r.wait(r.by(a, "x", "echo"))); got == first || got == own {
		t.Errorf("a is served by %s after its own was lost", got)
	}
}

// TestScopeChangesWithoutRestart takes a new scope over at once.
func TestScopeChangesWithoutRestart(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, nil)
	a, b := r.session(), r.session()
	if r.who(r.wait(r.by(a, "x", "echo"))) != r.who(r.wait(r.by(b, "x", "echo"))) {
		t.Error("a shared server has two instances")
	}
	next := *r.specs["x"]
	next.Scope = messages.ScopeSession
	r.specs["x"] = &next
	r.apply(Change{Updated: []*messages.ServerSpec{&next}})
	if r.who(r.wait(r.by(a, "x", "echo"))) == r.who(r.wait(r.by(b, "x", "echo"))) {
		t.Error("two sessions share an instance")
	}
}
