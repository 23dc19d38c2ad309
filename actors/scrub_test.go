package actors

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// TestErrorsAreScrubbed: whatever a child says that comes back as an error of ours has
// been searched for secrets, for who called and for who wanted to know its tools.
func TestErrorsAreScrubbed(t *testing.T) {
	const mark = "searched"
	r := newRigWith(t, nil, func(o *Options) {
		o.Scrub = func(err *messages.Error) *messages.Error {
			own := *err
			own.Message = mark
			return &own
		}
	})
	r.add("a", nil, nil)
	r.ok("a")
	for _, do := range []string{"broken", "trouble", "refused", "empty", `say "result":7`, `say "error":"no"`} {
		if a := r.do("a", "do", doArgs{Do: do}); a.Err == nil || !strings.Contains(a.Err.Message, mark) {
			t.Errorf("%s: %+v", do, a.Err)
		}
	}
	r.add("b", &script{refuse: []string{methodToolsList}}, nil)
	p := &contactPort{done: make(chan struct{})}
	r.e.Contact("b", false, p)
	<-p.done
	if p.err == nil || p.err.Message != mark {
		t.Errorf("its tools are not listed: %+v", p.err)
	}
	if a := r.do("b", "do", doArgs{}); a.Err == nil || !strings.Contains(a.Err.Message, mark) {
		t.Errorf("a call of it: %+v", a.Err)
	}
}

// secretOfFake stands in a broken line of a fake child where that is cut.
const secretOfFake = "hunter2hunter2hunter2"

// TestASecretIsFoundBeforeALineIsCut: what is left of it would not be recognized.
func TestASecretIsFoundBeforeALineIsCut(t *testing.T) {
	scrub := func(text []byte) []byte { return []byte(strings.ReplaceAll(string(text), secretOfFake, "***")) }
	r := newRigWith(t, nil, func(o *Options) { o.ScrubText = scrub })
	r.add("a", nil, nil)
	a := r.do("a", "do", doArgs{Do: "broken"})
	if a.Err == nil || len(a.Err.Details) != 1 || !strings.Contains(a.Err.Details[0], "---***") || strings.Contains(a.Err.Details[0], secretOfFake[:4]) {
		t.Errorf("a broken answer: %+v", a.Err)
	}
	d := &connectionDeps{scrubText: scrub}
	for n := 280; n < 310; n++ {
		if got := d.beginning([]byte(strings.Repeat("-", n) + secretOfFake)); len(got) > 300 || strings.Contains(got, secretOfFake[:4]) {
			t.Errorf("with %d bytes before it: %q", n, got)
		}
	}
}

// TestFramesThatReachClientsAreTold apart from those that stay with the connection.
func TestFramesThatReachClientsAreTold(t *testing.T) {
	for method, want := range map[string]bool{
		methodProgress: true, methodMessage: true, methodElicited: true, methodCancelled: true,
		messages.MethodElicit: true, messages.MethodSample: true, messages.MethodRoots: true,
		methodListChanged: false, methodPing: false,
	} {
		if got := isForCaller(&messages.Frame{Method: method, ID: json.RawMessage("1")}); got != want {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
}
