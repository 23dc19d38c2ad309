package actors

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// gatekeeper is a server whose calls of tool do stay open until they are let go.
type gatekeeper struct {
	mu   sync.Mutex
	open []kept
}

type kept struct {
	link *fakeLink
	id   json.RawMessage
	who  string
}

func (g *gatekeeper) script() *script {
	return &script{answers: func(l *fakeLink, m rpcLine) bool {
		if m.Method != methodToolsCall {
			return false
		}
		var p struct {
			Args struct{ Do string } `json:"arguments"`
		}
		_ = json.Unmarshal(m.Params, &p) // a line of ours
		if !strings.HasPrefix(p.Args.Do, "hold ") {
			return false
		}
		g.mu.Lock()
		g.open = append(g.open, kept{l, m.ID, p.Args.Do[len("hold "):]})
		g.mu.Unlock()
		return true
	}}
}

func (g *gatekeeper) count(who string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.open {
		if who == "" || h.who == who {
			n++
		}
	}
	return n
}

// next is whose the oldest open call is.
func (g *gatekeeper) next() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open[0].who
}

// let answers the oldest open call and says whose it was.
func (g *gatekeeper) let() string {
	g.mu.Lock()
	h := g.open[0]
	g.open = g.open[1:]
	g.mu.Unlock()
	h.link.answer(h.id, `{"content":[]}`)
	return h.who
}

// guest is a client with a session.
type guest struct {
	*Session
	mu    sync.Mutex
	ports []*port
}

func (g *guest) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.ports {
		p.Flush()
	}
}

func (r *rig) session() *guest {
	r.t.Helper()
	g := &guest{}
	s, err := r.e.OpenSession(g.flush)
	if err != nil {
		r.t.Fatal(err)
	}
	g.Session = s
	return g
}

// by sends a call of a client.
func (r *rig) by(s *guest, server, do string) *pendingCall {
	r.t.Helper()
	raw, err := json.Marshal(doArgs{Do: do})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.as(s, server, "do", string(raw))
}

// as sends a call of a client with any tool and arguments.
func (r *rig) as(s *guest, server, tool, args string) *pendingCall {
	p := newPort()
	c := &messages.Call{ID: lastCall.Add(1), Server: server, Method: methodToolsCall, Tool: tool, Args: json.RawMessage(args), Reply: p}
	r.mu.Lock()
	r.ports = append(r.ports, p)
	r.mu.Unlock()
	s.mu.Lock()
	s.ports = append(s.ports, p)
	s.mu.Unlock()
	s.Call(c)
	return &pendingCall{p, c}
}

// TestGreedyClientDoesNotStarveAnother has one client fill a server with a thousand
// calls, and another make one after the other: each of those passes the queue.
func TestGreedyClientDoesNotStarveAnother(t *testing.T) {
	for _, window := range []int{1, 2, 8, 64} {
		g := &gatekeeper{}
		r := newRig(t, nil)
		r.add("x", g.script(), func(s *messages.ServerSpec) { s.MaxInFlight = window })
		greedy, modest := r.session(), r.session()
		r.wantResult(r.wait(r.by(modest, "x", "echo"))) // it runs
		var all []*pendingCall
		for range 1000 {
			all = append(all, r.by(greedy, "x", "hold greedy"))
		}
		share := window - window/4
		r.f.eventually(t, "the greedy client's share is full", func() bool { return g.count("greedy") == share })
		for range 5 {
			p := r.by(modest, "x", "hold modest")
			r.f.eventually(t, "it is with the server's instance", func() bool { return r.held("x") == unanswered(all)+1 })
			// Where the window has no place of its own for it, one answer makes one.
			let := 0
			for r.f.eventually(t, "the child has its share", func() bool { return g.count("") >= min(window, share+1) }); g.count("modest") == 0; let++ {
				g.let()
				r.f.eventually(t, "the next is there", func() bool { return g.count("") >= min(window, share+1) })
			}
			if let > 1 {
				t.Fatalf("window %d: %d calls of the other went first", window, let)
			}
			for g.count("modest") > 0 {
				g.let()
				r.f.eventually(t, "the queue moves on", func() bool { return g.count("") >= share })
			}
			r.wantResult(r.wait(p))
		}
		for i, p := range all {
			for !p.answered() {
				r.f.eventually(t, "a call is there", func() bool { return g.count("") > 0 || p.answered() })
				if !p.answered() {
					g.let()
					r.f.eventually(t, "answered", func() bool { return p.answered() || g.count("") > 0 })
				}
			}
			r.wantResult(r.wait(all[i]))
		}
		r.close()
	}
}

// TestServersAtURLsAreGivenNoMoreThanTheirLinkTakes: what waits in a link has no turns.
func TestServersAtURLsAreGivenNoMoreThanTheirLinkTakes(t *testing.T) {
	for transport, window := range map[messages.Transport]int{
		messages.TransportHTTP: messages.RemoteInFlight, messages.TransportSSE: messages.RemoteInFlight, messages.TransportStdio: DefaultInFlight,
	} {
		t.Run(string(transport), func(t *testing.T) {
			g := &gatekeeper{}
			r := newRig(t, nil)
			r.add("x", g.script(), func(s *messages.ServerSpec) { s.Transport = transport })
			greedy := r.session()
			r.wantResult(r.wait(r.by(greedy, "x", "echo"))) // it runs
			all := make([]*pendingCall, window)
			for i := range all {
				all[i] = r.by(greedy, "x", "hold greedy")
			}
			share := window - window/4
			r.f.eventually(t, "all are with the instance", func() bool { return r.held("x") == len(all) })
			r.f.eventually(t, "the client's share is full", func() bool { return g.count("greedy") == share })
			r.wantResult(r.wait(r.by(r.session(), "x", "echo")))
			if n := g.count("greedy"); n != share {
				t.Errorf("it was given %d calls of one client, want %d", n, share)
			}
			for range all {
				r.f.eventually(t, "a call is there", func() bool { return g.count("") > 0 })
				g.let()
			}
			for _, p := range all {
				r.wantResult(r.wait(p))
			}
		})
	}
}

// TestRoomToWaitIsShared has a client fill all the room: another's call takes the
// place of its newest.
func TestRoomToWaitIsShared(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, nil)
	r.add("x", g.script(), func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	greedy, modest := r.session(), r.session()
	r.wantResult(r.wait(r.by(greedy, "x", "echo")))
	first := r.by(greedy, "x", "hold greedy")
	r.f.eventually(t, "the child has it", func() bool { return g.count("greedy") == 1 })
	all := make([]*pendingCall, maxConnWaiters)
	for i := range all {
		all[i] = r.by(greedy, "x", "hold greedy")
	}
	r.wantCode(r.wait(r.by(greedy, "x", "hold greedy")), messages.CodePoolSaturated)
	other := r.by(modest, "x", "hold modest")
	r.wantCode(r.wait(all[len(all)-1]), messages.CodePoolSaturated)
	g.let()
	r.wantResult(r.wait(first))
	r.f.eventually(t, "the other's turn", func() bool { return g.count("") == 1 })
	if g.count("modest") == 0 {
		g.let()
		r.f.eventually(t, "the other's turn", func() bool { return g.count("modest") == 1 })
	}
	g.let()
	r.wantResult(r.wait(other))
	greedy.Close()
	for _, p := range all[:len(all)-1] {
		r.wait(p)
	}
}

func TestCallsOfOneClientAreBounded(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, sessionCalls(3))
	r.add("x", g.script(), nil)
	a, b := r.session(), r.session()
	var mine []*pendingCall
	for range 3 {
		mine = append(mine, r.by(a, "x", "hold a"))
	}
	e := r.wantCode(r.wait(r.by(a, "x", "hold a")), messages.CodePoolSaturated)
	if !e.Retryable || !strings.Contains(e.Message, "3 calls of this client") {
		t.Errorf("said %+v", e)
	}
	r.wantResult(r.wait(r.by(b, "x", "echo"))) // others are not concerned
	r.f.eventually(t, "all there", func() bool { return g.count("a") == 3 })
	g.let()
	r.f.eventually(t, "one is answered", func() bool { return mine[0].answered() || mine[1].answered() || mine[2].answered() })
	r.wantResult(r.wait(r.by(a, "x", "echo")))
	g.let()
	g.let()
	for _, p := range mine {
		r.wantResult(r.wait(p))
	}
}

func unanswered(all []*pendingCall) (n int) {
	for _, p := range all {
		if !p.answered() {
			n++
		}
	}
	return n
}

// held is how many calls the instances of a server have, those that wait included.
func (r *rig) held(server string) (n int) {
	e, ok := r.e.Directory().Lookup(server)
	if !ok {
		return 0
	}
	for _, in := range e.Instances() {
		n += in.InFlight
	}
	return n
}

// wantTurns lets the calls go one by one, of which the first is with its server and the
// others wait, and compares in which order they do.
func (r *rig) wantTurns(g *gatekeeper, all []*pendingCall, want string) {
	r.t.Helper()
	var turns string
	for range all[1:] {
		g.let()
		r.f.eventually(r.t, "the next turn", func() bool { return g.count("") == 1 })
		turns += g.next()
	}
	g.let()
	for _, p := range all {
		r.wantResult(r.wait(p))
	}
	if turns != want {
		r.t.Errorf("the turns were %s, want %s", turns, want)
	}
}

// TestPrincipalsTakeTurns has two principals wait for a server that takes one call at a
// time, the second behind all calls of the first: their turns alternate.
func TestPrincipalsTakeTurns(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, nil)
	r.add("x", g.script(), func(s *messages.ServerSpec) { s.MaxInFlight = 1 })
	all := []*pendingCall{r.by(r.session(), "x", "hold neither")}
	r.f.eventually(t, "the server is busy", func() bool { return g.count("neither") == 1 })
	for _, who := range []string{"a", "b"} {
		s := r.session()
		s.BelongsTo("token " + who)
		for range 3 {
			all = append(all, r.by(s, "x", "hold "+who))
		}
	}
	r.f.eventually(t, "all others wait", func() bool { return r.held("x") == len(all) })
	r.wantTurns(g, all, "ababab")
}

// TestSessionsOfOnePrincipalShare: they have together what one client may have of a
// server.
func TestSessionsOfOnePrincipalShare(t *testing.T) {
	g := &gatekeeper{}
	r := newRig(t, nil)
	r.add("x", g.script(), func(s *messages.ServerSpec) { s.MaxInFlight = 8 })
	var all []*pendingCall
	sessions := make([]*guest, 5)
	for i := range sessions {
		sessions[i] = r.session()
		sessions[i].BelongsTo("token a")
	}
	for range 4 {
		for _, s := range sessions {
			all = append(all, r.by(s, "x", "hold greedy"))
		}
	}
	r.f.eventually(t, "the share is full", func() bool { return g.count("greedy") == 6 })
	r.wantResult(r.wait(r.by(r.session(), "x", "echo")))
	if n := g.count("greedy"); n != 6 {
		t.Errorf("the child has %d calls of the principal, want 6", n)
	}
	for _, p := range all {
		for !p.answered() {
			r.f.eventually(t, "a call is there", func() bool { return g.count("") > 0 || p.answered() })
			if g.count("") > 0 {
				g.let()
			}
		}
		r.wantResult(r.wait(p))
	}
}
