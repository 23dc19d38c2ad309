package actors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// fakeLauncher starts children that live in this process and speak real
// JSON-RPC lines. It counts who lives, so that a test can hold the pool to its
// limit.
type fakeLauncher struct {
	mu      sync.Mutex
	scripts map[string]*script
	links   []*fakeLink
	alive   int
	most    int // that were alive at the same time
	starts  map[string]int
	wrong   []string // what no launcher should ever see
	changed chan struct{}
}

// script is how the children of one server behave. It must not be changed
// after the first launch, but through atomic fields of the closures in it.
type script struct {
	launch   func(start int) error // before the child lives
	refuse   []string              // methods that are answered with an error
	silent   []string              // methods that are never answered
	diesOf   []string              // methods that end the child
	exits    bool                  // right after the start
	strict   bool                  // a request before its handshake is recorded as wrong
	slow     time.Duration         // before each greeting is answered
	pages    []string              // tools/list results in turn; nil: the usual tools
	restless bool                  // says before each listing that its list has changed
	stubborn bool                  // only SIGKILL ends it
	holdKill chan struct{}         // SIGKILL works once it is closed; nil: at once
	panics   func(line []byte) bool
	backlog  func(line []byte) bool
	stderr   []string
	modern   bool // only server/discover opens the conversation
	// answers may take a line over; it runs on the child's goroutine.
	answers func(l *fakeLink, m rpcLine) bool
	// refuseVersions is how often a start's server/discover is refused for its
	// version.
	refuseVersions int
}

// told is what a transport says that knows what a breaker should make of it.
type told struct{ ev messages.Evidence }

func (*told) Error() string                 { return "it went wrong" }
func (t *told) Evidence() messages.Evidence { return t.ev }

const usualTools = `{"tools":[
{"name":"do","inputSchema":{"type":"object"}},
{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
{"name":"twice","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}},
{"name":"typed","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}]}`

func newFakeLauncher() *fakeLauncher {
	return &fakeLauncher{scripts: map[string]*script{}, starts: map[string]int{}, changed: make(chan struct{})}
}

func (f *fakeLauncher) note() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeLauncher) accuse(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
	f.note()
}

// Launch implements Launcher.
func (f *fakeLauncher) Launch(spec *messages.ServerSpec, _ uint64, ear Ear) (Link, error) {
	f.mu.Lock()
	sc := f.scripts[spec.Name]
	if sc == nil {
		sc = &script{}
	}
	f.starts[spec.Name]++
	n := f.starts[spec.Name]
	f.note()
	f.mu.Unlock()
	if sc.launch != nil {
		if err := sc.launch(n); err != nil {
			return nil, err
		}
	}
	l := &fakeLink{f: f, sc: sc, server: spec.Name, n: n, ear: ear, dead: make(chan struct{}), wake: make(chan struct{}, 1), outWake: make(chan struct{}, 1)}
	f.mu.Lock()
	f.links = append(f.links, l)
	f.alive++
	f.most = max(f.most, f.alive)
	f.note()
	f.mu.Unlock()
	l.wg.Add(2)
	go l.child()
	go l.speaker()
	return l, nil
}

// rpcLine is one line that a child got.
type rpcLine struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	raw    string
}

// fakeLink is one child and the way to it.
type fakeLink struct {
	f      *fakeLauncher
	sc     *script
	server string
	n      int // which start of its server
	ear    Ear

	mu       sync.Mutex
	in       []string
	corked   *messages.Burst
	held     []string // what waits for its end
	inClosed bool
	out      []string
	got      []rpcLine
	exit     *messages.Exit // set once it is dead
	reaped   bool
	released bool
	deaf     bool
	broken   error // what Send returns from now on
	troubled bool  // the last "troubleOnce" was in trouble

	dead    chan struct{}
	wake    chan struct{}
	outWake chan struct{}
	wg      sync.WaitGroup

	// Of the child's goroutine alone.
	discovers int
	greeted   bool
	page      int
	deferred  map[string]json.RawMessage // id by which a late answer is given
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Send implements Link.
func (l *fakeLink) Send(line []byte) error {
	if l.sc.panics != nil && l.sc.panics(line) {
		panic("the fake link breaks")
	}
	if l.sc.backlog != nil && l.sc.backlog(line) {
		return ErrBacklog
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.released:
		l.f.accuse("Send to a released link of %s: %s", l.server, line)
	case l.broken != nil:
		return l.broken
	case l.exit != nil:
		return errors.New("broken pipe")
	}
	if l.corked != nil {
		l.held = append(l.held, string(line))
		return nil
	}
	l.in = append(l.in, string(line))
	poke(l.wake)
	return nil
}

// Cork implements Link.
func (l *fakeLink) Cork(b *messages.Burst) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.corked == b {
		return
	}
	l.uncork()
	if b.Hold(l) {
		l.corked = b
	}
}

// Uncork implements messages.Corked.
func (l *fakeLink) Uncork() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.uncork()
}

func (l *fakeLink) uncork() {
	l.in, l.held, l.corked = append(l.in, l.held...), nil, nil
	poke(l.wake)
}

// Retract implements Link.
func (l *fakeLink) Retract() (requests []json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range l.held {
		var m rpcLine
		if json.Unmarshal([]byte(raw), &m) == nil && m.ID != nil && m.Method != "" {
			requests = append(requests, m.ID)
		}
	}
	l.held, l.corked = nil, nil
	return requests
}

// Sendv implements Link.
func (l *fakeLink) Sendv(head, body, tail []byte) error {
	return l.Send([]byte(string(head) + string(body) + string(tail)))
}

// CloseInput implements Link.
func (l *fakeLink) CloseInput() {
	l.Uncork()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inClosed = true
	poke(l.wake)
}

// Signal implements Link.
func (l *fakeLink) Signal(s messages.Signal) {
	if s == messages.SignalTerminate && l.sc.stubborn {
		return
	}
	if l.sc.holdKill != nil {
		<-l.sc.holdKill
	}
	l.die(&messages.Exit{Code: -1, Signal: "SIGKILL", Requested: true})
}

// TreeAlive implements Link.
func (l *fakeLink) TreeAlive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.reaped
}

// Release implements Link.
func (l *fakeLink) Release() {
	l.mu.Lock()
	again, alive := l.released, !l.reaped
	l.released = true
	l.mu.Unlock()
	if again {
		l.f.accuse("%s#%d was released twice", l.server, l.n)
	}
	if alive {
		l.f.accuse("%s#%d was released while it was alive", l.server, l.n)
	}
	l.wg.Wait()
	l.f.mu.Lock()
	l.f.note()
	l.f.mu.Unlock()
}

// Pid implements Link.
func (l *fakeLink) Pid() int { return 1000 + l.n }

// Stderr implements Link.
func (l *fakeLink) Stderr() []string { return l.sc.stderr }

// die ends the child; what it said before still comes out.
func (l *fakeLink) die(e *messages.Exit) {
	l.mu.Lock()
	if l.exit != nil {
		l.mu.Unlock()
		return
	}
	e.Stderr = l.sc.stderr
	l.exit = e
	close(l.dead)
	l.mu.Unlock()
}

func (l *fakeLink) crash() { l.die(&messages.Exit{Code: 1}) }

// say queues one line of the child's.
func (l *fakeLink) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.exit != nil {
		return
	}
	l.out = append(l.out, line)
	poke(l.outWake)
}

// speaker is the goroutine that carries what the child says to the ear.
func (l *fakeLink) speaker() {
	defer l.wg.Done()
	for {
		l.mu.Lock()
		out, dead := l.out, l.exit != nil
		l.out = nil
		l.mu.Unlock()
		for i, line := range out {
			var m rpcLine
			if id, ok := strings.CutPrefix(line, "broken "); ok {
				l.ear.Broken([]byte(id), []byte(`{"id":`+id+`,"result":"`+strings.Repeat("-", 270)+secretOfFake), errors.New("it has no end"))
				continue
			}
			if id, ok := strings.CutPrefix(line, "status 405 "); ok {
				l.ear.Broken(json.RawMessage(id), nil, &told{messages.Evidence{HTTPStatus: 405, Text: "not here", Remote: true}})
				continue
			}
			if id, ok := strings.CutPrefix(line, "trouble "); ok {
				l.ear.Broken([]byte(id), nil, &told{messages.Evidence{Err: io.ErrUnexpectedEOF, Remote: true}})
				continue
			}
			if id, ok := strings.CutPrefix(line, "refused "); ok {
				l.ear.Broken([]byte(id), nil, &told{messages.Evidence{HTTPStatus: 403, Remote: true, NotRun: true}})
				continue
			}
			if welcome, ok := strings.CutPrefix(line, "renewed"); ok {
				l.ear.Renewed([]byte(strings.TrimSpace(welcome)))
				continue
			}
			if line == "unheard" {
				l.ear.Unheard()
				continue
			}
			if id, ok := strings.CutPrefix(line, "huge "); ok {
				l.ear.TooLarge([]byte(id))
				continue
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				l.ear.Noise([]byte(line))
				continue
			}
			l.ear.Frame(&messages.Frame{ID: m.ID, Method: m.Method, Params: m.Params, Result: m.Result, Error: m.Error, Size: len(line), More: i < len(out)-1})
		}
		l.ear.Flush()
		if dead {
			break
		}
		select {
		case <-l.outWake:
		case <-l.dead:
		}
	}
	l.ear.EOF(nil)
	l.f.mu.Lock()
	l.f.alive--
	l.f.mu.Unlock()
	l.mu.Lock()
	l.reaped = true
	exit := l.exit
	l.mu.Unlock()
	l.ear.Exited(exit)
	l.f.mu.Lock()
	l.f.note()
	l.f.mu.Unlock()
}

// child is the goroutine of the program itself.
func (l *fakeLink) child() {
	defer l.wg.Done()
	if l.sc.exits {
		l.crash()
	}
	for {
		l.mu.Lock()
		in, closed, deaf := l.in, l.inClosed, l.deaf
		if !deaf {
			l.in = nil
		}
		l.mu.Unlock()
		if !deaf {
			for _, raw := range in {
				var m rpcLine
				if err := json.Unmarshal([]byte(raw), &m); err != nil {
					l.f.accuse("%s got a line that is no JSON: %s", l.server, raw)
					continue
				}
				m.raw = raw
				l.mu.Lock()
				l.got = append(l.got, m)
				dead := l.exit != nil
				l.mu.Unlock()
				l.f.mu.Lock()
				l.f.note()
				l.f.mu.Unlock()
				if !dead {
					l.handle(m)
				}
			}
		}
		if closed && !l.sc.stubborn {
			l.die(&messages.Exit{Code: 0, Requested: true})
		}
		select {
		case <-l.wake:
		case <-l.dead:
			return
		}
	}
}

// later runs f after d unless the child is dead by then.
func (l *fakeLink) later(d time.Duration, f func()) {
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			f()
		case <-l.dead:
		}
	}()
}

func has(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (l *fakeLink) answer(id json.RawMessage, result string) {
	l.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func (l *fakeLink) refuse(id json.RawMessage, message string) {
	l.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32601,"message":` + strconv.Quote(message) + `}}`)
}

func (l *fakeLink) handle(m rpcLine) {
	if l.sc.answers != nil && l.sc.answers(l, m) {
		return
	}
	switch {
	case has(l.sc.diesOf, m.Method):
		l.crash()
		return
	case has(l.sc.silent, m.Method):
		return
	case has(l.sc.refuse, m.Method):
		l.refuse(m.ID, "no such method "+m.Method)
		return
	}
	if l.sc.strict && !l.greeted && m.Method != methodInitialize && m.Method != methodDiscover && m.Method != methodInitialized && m.Method != "" {
		l.f.accuse("%s got %s before its handshake was over", l.server, m.Method)
	}
	switch m.Method {
	case methodInitialize:
		if l.sc.modern {
			l.refuse(m.ID, "initialize is not known here")
			return
		}
		id := m.ID
		l.later(l.sc.slow, func() {
			l.answer(id, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}`)
		})
	case methodInitialized:
		l.greeted = true
	case methodDiscover:
		if !l.sc.modern {
			l.refuse(m.ID, "server/discover is not known here")
			return
		}
		if l.discovers++; l.discovers <= l.sc.refuseVersions {
			l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32022,"message":"not this version","data":{"supported":["2026-07-28"]}}}`)
			return
		}
		l.greeted = true
		id := m.ID
		l.later(l.sc.slow, func() {
			l.answer(id, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
		})
	case methodPing:
		l.answer(m.ID, `{}`)
	case methodToolsList:
		if l.sc.restless {
			l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		pages := l.sc.pages
		if len(pages) > 0 && l.page < len(pages) && (pages[l.page] == "broken" || pages[l.page] == "huge") {
			l.say(pages[l.page] + " " + string(m.ID))
			l.page++
			return
		}
		if pages == nil {
			pages = []string{usualTools}
		}
		l.answer(m.ID, pages[min(l.page, len(pages)-1)])
		l.page++
	case methodToolsCall:
		l.call(m)
	case methodCancelled:
		var p struct {
			ID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &p) // a line of ours
		if id, ok := l.deferred[string(p.ID)]; ok {
			l.answer(id, `{"content":[],"late":true}`)
		}
	}
}

// doArgs tell the fake's tools what to do.
type doArgs struct {
	Do string `json:"do"`
	Ms int    `json:"ms"`
	N  int    `json:"n"`
}

func (l *fakeLink) call(m rpcLine) {
	var p struct {
		Args doArgs `json:"arguments"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p) // a line of ours
	ok := `{"content":[{"type":"text","text":"` + l.server + `#` + strconv.Itoa(l.n) + `"}]}`
	wait := time.Duration(p.Args.Ms) * time.Millisecond
	if body, ok := strings.CutPrefix(p.Args.Do, "say "); ok {
		l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + body + `}`)
		return
	}
	switch p.Args.Do {
	case "", "echo":
		l.answer(m.ID, ok)
	case "delay":
		l.later(wait, func() { l.answer(m.ID, ok) })
	case "silent":
	case "trouble", "refused":
		l.say(p.Args.Do + " " + string(m.ID))
	case "troubleOnce":
		if l.troubled = !l.troubled; l.troubled {
			l.say("trouble " + string(m.ID))
			return
		}
		l.answer(m.ID, ok)
	case "broken", "huge":
		l.say(p.Args.Do + " " + string(m.ID))
	case "float":
		l.answer([]byte(string(m.ID)+".0"), ok)
	case "deaf":
		l.mu.Lock()
		l.deaf = true
		l.mu.Unlock()
	case "die":
		l.crash()
	case "dieOnce":
		if l.n == 1 {
			l.crash()
			return
		}
		l.answer(m.ID, ok)
	case "answerdie":
		l.answer(m.ID, ok)
		l.crash()
	case "iserror":
		l.answer(m.ID, `{"isError":true,"content":[{"type":"text","text":"no"}]}`)
	case "rpcerror":
		l.refuse(m.ID, "not today")
	case "empty":
		l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `}`)
	case "late":
		if l.deferred == nil {
			l.deferred = map[string]json.RawMessage{}
		}
		l.deferred[string(m.ID)] = m.ID
	case "twice":
		l.answer(m.ID, ok)
		l.answer(m.ID, ok)
	case "oddprogress":
		for _, params := range []string{`"progress":"x"`, `"progress":null`, `"total":3`, `"progress":1,"total":"3"`, `"progress":1,"message":7`, `"progress":1,"total":2.5,"message":"half"`} {
			l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(p.Meta.Token) + `,` + params + `}}`)
		}
		l.answer(m.ID, ok)
	case "progress":
		l.progress(m.ID, p.Meta.Token, p.Args.N, wait, ok)
	case "changed":
		l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		l.answer(m.ID, ok)
	case "ask":
		l.say(`{"jsonrpc":"2.0","id":"q1","method":"sampling/createMessage","params":{}}`)
		l.say(`{"jsonrpc":"2.0","id":"q2","method":"ping"}`)
		l.say(`not JSON at all`)
		l.answer(m.ID, ok)
	}
}

func (l *fakeLink) progress(id, token json.RawMessage, left int, every time.Duration, ok string) {
	l.later(every, func() {
		if left == 0 {
			l.answer(id, ok)
			return
		}
		l.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":` + strconv.Itoa(left) + `}}`)
		l.progress(id, token, left-1, every, ok)
	})
}

// eventually waits until ok is true, looking whenever the launcher saw
// something and now and then.
func (f *fakeLauncher) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("it never happened: %s", what)
		}
	}
}

func (f *fakeLauncher) aliveNow() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive
}

func (f *fakeLauncher) started(server string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts[server]
}

// living returns the links of a server whose child lives.
func (f *fakeLauncher) living(server string) []*fakeLink {
	f.mu.Lock()
	links := append([]*fakeLink(nil), f.links...)
	f.mu.Unlock()
	var out []*fakeLink
	for _, l := range links {
		l.mu.Lock()
		if l.exit == nil && (server == "" || l.server == server) {
			out = append(out, l)
		}
		l.mu.Unlock()
	}
	return out
}

// lines returns what all children of a server got, by method.
func (f *fakeLauncher) lines(server, method string) []rpcLine {
	f.mu.Lock()
	links := append([]*fakeLink(nil), f.links...)
	f.mu.Unlock()
	var out []rpcLine
	for _, l := range links {
		if l.server != server {
			continue
		}
		l.mu.Lock()
		for _, m := range l.got {
			if m.Method == method {
				out = append(out, m)
			}
		}
		l.mu.Unlock()
	}
	return out
}

// check reports what should never have happened, and what is left over.
func (f *fakeLauncher) check(t reporter) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.wrong {
		t.Error(w)
	}
	if f.alive != 0 {
		t.Errorf("%d children are alive at the end", f.alive)
	}
	for _, l := range f.links {
		l.mu.Lock()
		if !l.released {
			t.Errorf("%s#%d was never released", l.server, l.n)
		}
		l.mu.Unlock()
	}
}

// reporter is what a check needs of a test, or of a drawn one.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Error(args ...any)
}
