package actors

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func quickStart(s *messages.ServerSpec) { s.StartupTimeout = 150 * time.Millisecond }

func TestHandshake(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script script
		spec   func(*messages.ServerSpec)
		era    messages.Era   // that is learned; "" for a start that fails
		class  messages.Class // of the failure
		part   string         // of the failure's text
	}{
		{name: "legacy", script: script{strict: true}, era: messages.EraLegacy},
		{name: "modern only refuses initialize", script: script{strict: true, modern: true}, era: messages.EraModern},
		{name: "modern only ignores initialize", script: script{strict: true, modern: true, silent: []string{methodInitialize}},
			spec: func(s *messages.ServerSpec) { s.StartupTimeout = 600 * time.Millisecond }, era: messages.EraModern},
		{name: "refuses both", script: script{refuse: []string{methodInitialize, methodDiscover}}, class: messages.ClassOther, part: "no such method"},
		{name: "silent", script: script{silent: []string{methodInitialize, methodDiscover}}, spec: quickStart,
			class: messages.ClassOffline, part: "150ms"},
		{name: "silent after it said why", script: script{silent: []string{methodInitialize, methodDiscover}, stderr: []string{"401: waiting for login"}}, spec: quickStart,
			class: messages.ClassOffline, part: "401: waiting for login"},
		{name: "refuses both after it said why", script: script{refuse: []string{methodInitialize, methodDiscover}, stderr: []string{"401: no licence found"}},
			class: messages.ClassOther, part: "401: no licence found"},
		{name: "silent after it refused discover", script: script{silent: []string{methodInitialize}, refuse: []string{methodDiscover}}, spec: quickStart,
			class: messages.ClassOffline, part: "did not complete the handshake within 150ms (startupTimeoutMs)"},
		{name: "silent after it refused initialize", script: script{silent: []string{methodDiscover}, refuse: []string{methodInitialize}}, spec: quickStart,
			class: messages.ClassOffline, part: "150ms (startupTimeoutMs); initialize was refused: "},
		{name: "exits at the start", script: script{exits: true, stderr: []string{"no licence found"}}, class: messages.ClassStdioExit, part: "no licence found"},
		{name: "exits at initialize", script: script{diesOf: []string{methodInitialize}}, class: messages.ClassStdioExit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", &tc.script, tc.spec)
			a := r.do("a", "do", doArgs{})
			if tc.era != messages.EraUnknown {
				r.wantResult(a)
				if got := r.e.Catalog().Server("a").Toolset.Era; got != tc.era {
					t.Errorf("learned era %q, want %q", got, tc.era)
				}
				return
			}
			err := r.wantCode(a, messages.CodeConnection)
			text := err.Message + "\n" + strings.Join(err.Details, "\n")
			if err.Class != tc.class || !strings.Contains(text, tc.part) {
				t.Errorf("class %q and text %q, want %q and %q", err.Class, text, tc.class, tc.part)
			}
		})
	}
}

// TestACallThatDoesNotWaitForAHangingStart has what the child said in its error.
func TestACallThatDoesNotWaitForAHangingStart(t *testing.T) {
	b := newBench(t, &script{silent: []string{methodInitialize, methodDiscover}, stderr: []string{"waiting for login"}})
	b.send(&messages.Connect{})
	b.f.eventually(t, "the child is greeted", func() bool { return len(b.f.lines("a", methodInitialize)) == 1 })
	call, p := b.call("")
	call.Deadline = time.Now().Add(time.Millisecond)
	b.send(call)
	b.f.eventually(t, "the call is over", p.answered)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.answers[0].Err
	if err == nil || err.Code != messages.CodeExecutionTimeout || !slices.Equal(err.Details, []string{"waiting for login"}) {
		t.Fatalf("%+v", err)
	}
	says(t, err, []string{"longer timeoutMs"}, []string{"startupTimeoutMs"}) // which was not over
}

// Over Streamable HTTP the modern greeting comes first, and once more where its
// version was refused by a server that offers it.
func TestRemoteHandshake(t *testing.T) {
	overHTTP := func(s *messages.ServerSpec) { s.Transport = messages.TransportHTTP }
	for _, tc := range []struct {
		name        string
		script      script
		era         messages.Era // "": a start that fails
		initializes int
		discovers   int
	}{
		{"modern", script{strict: true, modern: true}, messages.EraModern, 0, 1},
		{"legacy", script{strict: true}, messages.EraLegacy, 1, 1},
		{"the version is refused once", script{strict: true, modern: true, refuseVersions: 1}, messages.EraModern, 0, 2},
		{"the version is refused for ever", script{strict: true, modern: true, refuseVersions: 100}, "", 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", &tc.script, overHTTP)
			a := r.do("a", "do", doArgs{})
			if tc.era == messages.EraUnknown {
				r.wantCode(a, messages.CodeConnection)
			} else {
				r.wantResult(a)
				if got := r.e.Catalog().Server("a").Toolset.Era; got != tc.era {
					t.Errorf("learned era %q, want %q", got, tc.era)
				}
			}
			if got := len(r.f.lines("a", methodInitialize)); got != tc.initializes {
				t.Errorf("%d times initialize, want %d", got, tc.initializes)
			}
			if got := len(r.f.lines("a", methodDiscover)); got != tc.discovers {
				t.Errorf("%d times server/discover, want %d", got, tc.discovers)
			}
		})
	}
}

func TestLearnedEraIsUsedFirst(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{strict: true, modern: true}, func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleEphemeral })
	r.ok("a")
	r.f.eventually(t, "the ephemeral child ends", func() bool { return r.f.aliveNow() == 0 })
	before := len(r.f.lines("a", methodInitialize))
	r.ok("a")
	if after := len(r.f.lines("a", methodInitialize)); after != before {
		t.Errorf("a child that is known to be modern was greeted with initialize")
	}
}

func TestChildThatDiesOfInitializeIsGreetedOtherwiseNextTime(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{strict: true, modern: true, diesOf: []string{methodInitialize}}, nil)
	r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection)
	r.ok("a")
}

func TestManyFirstCallsStartOneChild(t *testing.T) {
	for _, n := range []int{16, 500} {
		r := newRig(t, nil)
		r.add("a", &script{strict: true, slow: 30 * time.Millisecond}, nil)
		gate := make(chan struct{})
		sent := make(chan *pendingCall, n)
		for range n {
			go func() {
				<-gate
				sent <- r.start("a", "do", doArgs{})
			}()
		}
		close(gate)
		for range n {
			r.wantResult(r.wait(<-sent))
		}
		if got := r.f.started("a"); got != 1 {
			t.Errorf("%d first calls started %d children", n, got)
		}
		r.close()
	}
}

// TestCallsWaitWhileConnecting has a catalog already, so that the calls reach
// the connection itself before its handshake is over.
func TestCallsWaitWhileConnecting(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{strict: true, slow: 40 * time.Millisecond}, nil)
	r.ok("a")
	r.f.living("a")[0].crash()
	r.f.eventually(t, "the child is gone", func() bool { return r.f.aliveNow() == 0 })
	var calls []*pendingCall
	for range 16 {
		calls = append(calls, r.start("a", "do", doArgs{}))
	}
	r.f.eventually(t, "the server is CONNECTING", func() bool {
		return r.status("a").State == messages.StateConnecting || calls[0].answered()
	})
	for _, c := range calls {
		r.wantResult(r.wait(c))
	}
	if got := r.f.started("a"); got != 2 {
		t.Errorf("%d starts, want 2", got)
	}
}

func TestIdleOnlyAfterTheLastAnswer(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	r.settled(1)
	idle := func() int { return r.trace.count("transition", "ACTIVE → IDLE") }
	before := idle()
	held := r.start("a", "do", doArgs{Do: "silent"})
	for range 5 {
		r.ok("a")
	}
	if got := r.status("a").State; got != messages.StateActive {
		t.Errorf("state %s with a call in flight", supervision.StateName(got))
	}
	if got := idle(); got != before {
		t.Errorf("it became IDLE with a call in flight")
	}
	r.e.Cancel(held.call, "enough")
	r.wantCode(r.wait(held), messages.CodeCancelled)
	r.settled(1)
	if got := idle(); got != before+1 {
		t.Errorf("it became IDLE %d times, want once", got-before)
	}
}

func TestListing(t *testing.T) {
	page := func(tool, next string) string {
		return `{"tools":[{"name":"` + tool + `","inputSchema":{"type":"object"}}]` + next + `}`
	}
	for _, tc := range []struct {
		name  string
		pages []string
		tools string
	}{
		{"one page", []string{page("a", "")}, "a"},
		{"three pages", []string{page("a", `,"nextCursor":"x"`), page("b", `,"nextCursor":"y"`), page("c", "")}, "a b c"},
		{"an empty cursor is followed once", []string{page("a", `,"nextCursor":""`), page("b", `,"nextCursor":""`), page("c", "")}, "a b"},
		{"a repeated cursor ends it", []string{page("a", `,"nextCursor":"x"`), page("b", `,"nextCursor":"x"`), page("c", "")}, "a b"},
		{"a null cursor is none", []string{page("a", `,"nextCursor":null`), page("b", "")}, "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.add("a", &script{pages: tc.pages}, nil)
			p := &contactPort{done: make(chan struct{})}
			r.e.Contact("a", false, p)
			r.heard(p)
			var names []string
			for _, e := range r.e.Catalog().Server("a").Entries {
				names = append(names, e.Tool.Name)
			}
			if got := strings.Join(names, " "); got != tc.tools {
				t.Errorf("tools %q, want %q", got, tc.tools)
			}
		})
	}
}

// logged keeps what is written to a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Of a server with too many tools the first ones are taken, no further page is asked
// for, and the log says so.
func TestListingOfTooManyTools(t *testing.T) {
	page := func(from, n int, next string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"name":"t%d"},`, from+i)
		}
		return `{"tools":[` + strings.TrimSuffix(b.String(), ",") + `]` + next + `}`
	}
	const half = index.MaxTools / 2
	for _, tc := range []struct {
		name  string
		pages []string
		last  string
		cut   bool
	}{
		{"one page that is full", []string{page(0, index.MaxTools, "")}, "t19999", false},
		{"one page", []string{page(0, index.MaxTools+1, "")}, "t19999", true},
		{"several pages", []string{page(0, half, `,"nextCursor":"x"`), page(half, half+1, `,"nextCursor":"y"`), page(0, 1, "")}, "t19999", true},
		{"doubles count", []string{page(0, half, `,"nextCursor":"x"`), page(0, half+1, `,"nextCursor":"y"`), page(half, half, "")}, "t9999", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var said logged
			r := newRigWith(t, nil, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&said, nil)) })
			r.add("a", &script{pages: tc.pages}, nil)
			p := &contactPort{done: make(chan struct{})}
			r.e.Contact("a", false, p)
			r.heard(p)
			entry := r.e.Catalog().Server("a")
			if entry.Tool(tc.last) == nil || len(entry.Toolset.Tools) > index.MaxTools {
				t.Errorf("%d tools, the last one is %s", len(entry.Toolset.Tools), entry.Toolset.Tools[len(entry.Toolset.Tools)-1].Name)
			}
			if cut := strings.Contains(said.String(), "more than 20000 tools"); cut != tc.cut {
				t.Errorf("the log says %q", said.String())
			}
		})
	}
}

func (r *rig) heard(p *contactPort) {
	r.t.Helper()
	t := time.NewTimer(soon)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		r.t.Fatal("the contact heard nothing")
	}
}

func TestListChangedRefreshesTheCatalog(t *testing.T) {
	r := newRig(t, nil)
	second := `{"tools":[{"name":"do","inputSchema":{"type":"object"}},{"name":"new","inputSchema":{"type":"object"}}]}`
	r.add("a", &script{pages: []string{usualTools, second}}, nil)
	r.ok("a")
	r.wantResult(r.do("a", "do", doArgs{Do: "changed"}))
	r.f.eventually(t, "the new tool is in the catalog", func() bool { return r.e.Catalog().Server("a").Tool("new") != nil })
	r.wantResult(r.do("a", "new", doArgs{}))
}

func TestChildThatDoesNotListItsTools(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{refuse: []string{methodToolsList}}, nil)
	for range 2 { // the second finds it connected and without a catalog
		err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection)
		if !strings.Contains(err.Message, "did not list its tools") {
			t.Errorf("message %q", err.Message)
		}
	}
}

func TestChildMayAskAndTalkNonsense(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.wantResult(r.do("a", "do", doArgs{Do: "ask"}))
	var refused, pong bool
	r.f.eventually(t, "the child's own requests are answered", func() bool {
		for _, m := range r.f.lines("a", "") {
			refused = refused || string(m.ID) == `"q1"` && m.Error != nil
			pong = pong || string(m.ID) == `"q2"` && m.Result != nil
		}
		return refused && pong
	})
	r.f.eventually(t, "the noise is traced", func() bool { return r.trace.count("noise", "not JSON") == 1 })
}
