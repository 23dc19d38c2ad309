package liveview

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/metamcp/metamcp/messages"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// testModel is a model of so many columns and lines to which a host is
// attached.
func testModel(t testing.TB, width, height int) *model {
	t.Helper()
	m, err := newModel("work", "", false, start)
	if err != nil {
		t.Fatal(err)
	}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(frame{now: start, link: &link{live: true, run: 1, at: start}, status: testStatus(start)})
	return m
}

// testStatus has a server in each state that a breaker can be in.
func testStatus(at time.Time) *messages.HostStatus {
	const breaker = "metamcp/pool/breaker/"
	st := &messages.HostStatus{
		Name: "work", PID: 4711, Version: "1.2.3", Started: at.Add(-90 * time.Second), At: at, Sessions: 1,
		Pool:  messages.PoolStatus{Size: 20, Used: 3, Idle: 1, Waiters: 2, MaxWaiters: 1024, Evictions: 7, Reserve: 2},
		Calls: messages.CallCounts{InFlight: 5, Total: 42, Failed: 6},
		Servers: []messages.HostServer{
			{Name: "files", State: "ACTIVE", Breaker: "closed", Instances: []messages.Instance{
				{Actor: breaker + "files~1/conn#1", PID: 7, State: "ACTIVE", InFlight: 3},
				{Actor: breaker + "files~1/conn#2", State: "CONNECTING"},
				{Actor: breaker + "files~1/conn#10", PID: 8, State: "IDLE"},
				{Actor: breaker + "files~1/conn#11", PID: 9, State: "FAILED"},
			}},
			{Name: "broken", State: "FAILED", Breaker: "open", RetryAt: at.Add(12 * time.Second)},
			{Name: "trying", State: "CONNECTING", Breaker: "half-open"},
			{Name: "ready", State: "IDLE", Breaker: "open", RetryAt: at.Add(-time.Second)},
			{Name: "off", State: "IDLE", Breaker: "closed", Disabled: true},
		},
	}
	for id, mailbox := range map[string]int{
		"metamcp": 0, "metamcp/index": 17, "metamcp/pool": 0, "metamcp/session/1": 0,
		breaker + "files~1": 0, breaker + "files~1/conn#1": 0, breaker + "files~1/conn#2": 0, breaker + "files~1/conn#10": 0, breaker + "files~1/conn#11": 0,
		breaker + "broken~2": 0, breaker + "trying~3": 0, breaker + "ready~4": 0, breaker + "off~5": 0,
	} {
		st.Actors = append(st.Actors, messages.ActorStatus{ID: id, Mailbox: mailbox})
	}
	return st
}

// screen is what is seen, without colours and blanks at the ends of lines.
func screen(m *model) string {
	var lines []string
	for line := range strings.SplitSeq(ansi.Strip(m.View().Content), "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n")
}

// row is the line of the screen that holds a text, with single blanks.
func row(m *model, text string) string {
	for line := range strings.SplitSeq(screen(m), "\n") {
		if strings.Contains(line, text) {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	return ""
}

func press(m *model, keys ...string) (quit bool) {
	special := map[string]rune{
		"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "home": tea.KeyHome,
		"end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace,
	}
	for _, k := range keys {
		var msg tea.KeyPressMsg
		switch code, ok := special[k]; {
		case ok:
			msg = tea.KeyPressMsg{Code: code}
		case strings.HasPrefix(k, "ctrl+"):
			msg = tea.KeyPressMsg{Code: rune(k[len(k)-1]), Mod: tea.ModCtrl}
		default:
			code, _ := utf8.DecodeRuneInString(k)
			msg = tea.KeyPressMsg{Code: code, Text: k}
		}
		if _, cmd := m.Update(msg); cmd != nil {
			_, quit = cmd().(tea.QuitMsg)
		}
	}
	return quit
}

func typeText(m *model, text string) {
	for _, r := range text {
		press(m, string(r))
	}
}

// feedRecords hands records over in one frame, a millisecond after the other.
func feedRecords(m *model, records ...messages.TraceRecord) {
	f := frame{now: m.now.Add(frameEvery)}
	for _, r := range records {
		if r.Time.IsZero() {
			r.Time = f.now
		}
		f.records = append(f.records, record{bounded(r), max(m.link.run, 1)})
	}
	m.Update(f)
}

func message(request uint64, from, to, kind string) messages.TraceRecord {
	return messages.TraceRecord{V: 2, Kind: messages.TraceMessage, Request: request, From: from, To: to, Type: kind, Span: request*100 + uint64(len(kind))}
}

func TestTreeShowsStates(t *testing.T) {
	const files = "metamcp/pool/breaker/files~1"
	late := start.Add(time.Second)
	for _, test := range []struct {
		name    string
		records []messages.TraceRecord
		text    string
		want    string
	}{
		{"active", nil, "conn#1 ", "│ │ ├ conn#1 ACTIVE 3 0"},
		{"connecting", nil, "conn#2", "│ │ ├ conn#2 CONNECTING 0"},
		{"idle", nil, "conn#10", "│ │ ├ conn#10 IDLE 0"},
		{"failed", nil, "conn#11", "│ │ └ conn#11 FAILED 0"},
		{"closed breaker", nil, "files~1", "│ ├ files~1 closed 0"},
		{"open", nil, "broken~2", "│ ├ broken~2 open 12s 0"},
		{"half-open", nil, "trying~3", "│ └ trying~3 half-open 0"},
		{"open, time is over", nil, "ready~4", "│ ├ ready~4 open, may try 0"},
		{"disabled", nil, "off~5", "│ ├ off~5 disabled 0"},
		{"mailbox", nil, "index", "├ index 17"},
		{"last of the root", nil, "session/1", "└ session/1 0"},
		{"a transition since", []messages.TraceRecord{{Kind: "transition", Time: late, To: files + "/conn#2", Detail: "CONNECTING → FAILED (lost)"}}, "conn#2", "│ │ ├ conn#2 FAILED 0"},
		{"one before the status", []messages.TraceRecord{{Kind: "transition", Time: start.Add(-time.Second), To: files + "/conn#2", Detail: "IDLE → CLOSED (close)"}}, "conn#2", "│ │ ├ conn#2 CONNECTING 0"},
		{"a message tells it", []messages.TraceRecord{{Kind: "message", Time: late, To: files + "/conn#10", Type: "Call", Before: "IDLE", After: "ACTIVE"}}, "conn#10", "│ │ ├ conn#10 ACTIVE 0"},
		{"a breaker opens", []messages.TraceRecord{{Kind: "message", Time: late, To: files, Type: "ConnectionFailed", Before: "closed", After: "open"}}, "files~1", "│ ├ files~1 open 0"},
		{"a new connection", []messages.TraceRecord{{Kind: "transition", Time: late, To: files + "/conn#12", Detail: "IDLE → CONNECTING (connect)"}}, "conn#12", "│ │ └ conn#12 CONNECTING"},
		{"closed", []messages.TraceRecord{{Kind: "transition", Time: late, To: files + "/conn#11", Detail: "FAILED → CLOSED (close)"}}, "conn#11", "│ │ └ conn#11 CLOSED 0"},
		{"no state", []messages.TraceRecord{{Kind: "transition", Time: late, To: files + "/conn#11", Detail: "nonsense"}}, "conn#11", "│ │ └ conn#11 FAILED 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := testModel(t, 100, 60)
			feedRecords(m, test.records...)
			if got := row(m, test.text); got != test.want {
				t.Errorf("%q, want %q in\n%s", got, test.want, screen(m))
			}
		})
	}
}

// The next status is right about what it was taken after, and actors that are
// not in it have gone.
func TestStatusReplacesWhatRecordsTold(t *testing.T) {
	m := testModel(t, 100, 60)
	feedRecords(m, messages.TraceRecord{Kind: "transition", Time: start.Add(time.Second), To: "metamcp/pool/breaker/files~1/conn#2", Detail: "CONNECTING → FAILED (lost)"})
	st := testStatus(start.Add(2 * time.Second))
	st.Actors = st.Actors[:0]
	for _, a := range testStatus(start).Actors {
		if !strings.HasSuffix(a.ID, "conn#1") {
			st.Actors = append(st.Actors, a)
		}
	}
	m.Update(frame{now: start.Add(2 * time.Second), status: st})
	if got := row(m, "conn#2"); !strings.Contains(got, "CONNECTING") {
		t.Errorf("%q", got)
	}
	if got := row(m, "conn#1 "); got != "" {
		t.Errorf("it has gone: %q", got)
	}
	if len(m.tree.changes) != 0 {
		t.Errorf("%d changes are kept", len(m.tree.changes))
	}
}

func TestSecondsRunDown(t *testing.T) {
	m := testModel(t, 100, 60)
	m.Update(frame{now: start.Add(2500 * time.Millisecond)})
	if got := row(m, "broken~2"); !strings.Contains(got, "open 10s") {
		t.Errorf("%q", got)
	}
	if got := row(m, "work"); !strings.Contains(got, "up 1m32s") {
		t.Errorf("%q", got)
	}
}

func TestHeader(t *testing.T) {
	m := testModel(t, 160, 30)
	for _, want := range []string{
		"work  live  up 1m30s  pid 4711  metamcp 1.2.3",
		"calls 5 in flight  42 total  6 failed  dropped 0  sessions 1",
		"pool  ██▒░░░░░░░░░░░░░░░░░  3/20  waiters 2  evicted 7  idle 1  reserve 0/2",
	} {
		if !strings.Contains(screen(m), want) {
			t.Errorf("no %q in\n%s", want, screen(m))
		}
	}
	for _, p := range []struct {
		pool        messages.PoolStatus
		most, cells int
		want        string
	}{
		{messages.PoolStatus{}, 20, 1, "░"},
		{messages.PoolStatus{Size: 4, Used: 9, Idle: 1}, 20, 4, "████"},
		{messages.PoolStatus{Size: 1000, Used: 1}, 10, 10, "█░░░░░░░░░"},
		{messages.PoolStatus{Size: 2, Used: 2, Idle: 2}, 10, 2, "▒▒"},
		{messages.PoolStatus{Size: 2, Used: -1, Idle: 5}, 10, 2, "░░"},
	} {
		text, cells := m.bar(&p.pool, p.most)
		if ansi.Strip(text) != p.want || cells != p.cells {
			t.Errorf("%+v: %q of %d, want %q", p.pool, ansi.Strip(text), cells, p.want)
		}
	}
}

func TestDropsAreCounted(t *testing.T) {
	m := testModel(t, 100, 30)
	feedRecords(m, messages.TraceRecord{Kind: messages.TraceDropped, Count: 30})
	m.Update(frame{now: m.now, skipped: 12})
	if !strings.Contains(screen(m), "dropped 42") || !strings.Contains(row(m, "30 records"), "* dropped 30 records") {
		t.Errorf("\n%s", screen(m))
	}
}

func TestHostGoneAndBack(t *testing.T) {
	m := testModel(t, 120, 30)
	feedRecords(m, message(1, "metamcp/session/1", "metamcp/pool", "Before"))
	at := m.now
	m.Update(frame{now: at, link: &link{run: 1, why: "the host ended", at: at}})
	m.Update(frame{now: at.Add(3 * time.Second)})
	if !strings.Contains(screen(m), "the host ended 3s ago; waiting for it to come back") || row(m, "Before") == "" {
		t.Errorf("gone:\n%s", screen(m))
	}
	press(m, "enter")
	if !strings.Contains(screen(m), "the host ended") {
		t.Errorf("gone, with a request open:\n%s", screen(m))
	}
	press(m, "esc")
	m.Update(frame{now: at.Add(3 * time.Second), link: &link{run: 1, why: strings.Repeat("a long reason ", 20), at: at}})
	if !strings.Contains(screen(m), "a long … 3s ago; waiting for it to come back") {
		t.Errorf("gone for a long reason:\n%s", screen(m))
	}
	m.Update(frame{now: at.Add(4 * time.Second), link: &link{live: true, run: 2, at: at}})
	feedRecords(m, message(1, "metamcp/session/1", "metamcp/pool", "Afterwards"))
	if !strings.Contains(screen(m), "attached") || row(m, "Afterwards") == "" {
		t.Errorf("back:\n%s", screen(m))
	}
	press(m, "enter") // the new host counts its requests from 1 again
	if text := screen(m); !strings.Contains(text, "Afterwards") || strings.Contains(text, "Before") {
		t.Errorf("request 1 of the second host:\n%s", text)
	}
	press(m, "esc")
	m.Update(frame{now: m.now, status: testStatus(m.now)})
	m.Update(frame{now: m.now.Add(7 * time.Second)})
	if !strings.Contains(screen(m), "no status since 7s") {
		t.Errorf("silent:\n%s", screen(m))
	}
}

// Every size shows lines that fit, exactly as many as there is room for from
// the smallest useful one on.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, hostile := range []string{"plain", "宽字符\U0001F600\u0301\u0301é", "a\x1b[2J\x07b\u202Ec\u2028d\xff"} {
		for _, size := range [][2]int{{1, 1}, {10, 3}, {29, 16}, {30, 9}, {60, 16}, {80, 24}, {110, 30}, {200, 50}, {60, 100}, {300, 9}} {
			m := testModel(t, size[0], size[1])
			st := testStatus(start)
			st.Actors = append(st.Actors, messages.ActorStatus{ID: "metamcp/pool/breaker/" + hostile + strings.Repeat("x", 300), Mailbox: 123456789})
			st.Version = hostile
			m.Update(frame{now: start, status: st})
			for i := range 100 {
				feedRecords(m, messages.TraceRecord{Kind: messages.TraceMessage, Request: uint64(i), From: hostile, To: hostile, Type: hostile, Before: hostile, After: "x", Detail: hostile},
					messages.TraceRecord{Kind: messages.TraceAnswer, Server: hostile, Tool: hostile, Outcome: hostile, Payload: []byte(hostile)})
			}
			for _, keys := range [][]string{nil, {"tab"}, {"/"}, {"x"}, {"enter"}, {"esc"}, {"p"}, {"tab"}, {"enter"}, {"end"}, {"esc"}, {"?"}} {
				press(m, keys...)
				fits(t, m, fmt.Sprintf("%q at %v after %q", hostile, size, keys))
			}
		}
	}
}

// fits checks that a screen fits the window and steers no terminal.
func fits(t testing.TB, m *model, what string) {
	t.Helper()
	content := m.View().Content
	lines := strings.Split(content, "\n")
	if len(lines) > max(m.height, 1) || m.width >= leastWidth && m.height >= leastHeight && len(lines) != m.height {
		t.Errorf("%s: %d lines of %d", what, len(lines), m.height)
	}
	for _, line := range lines {
		if w := ansi.StringWidth(line); w > m.width {
			t.Errorf("%s: %d columns of %d: %q", what, w, m.width, line)
		}
		if text := ansi.Strip(line); strings.ContainsFunc(text, obeyed) {
			t.Errorf("%s: %q", what, text)
		}
	}
	for rest := content; ; {
		_, after, ok := strings.Cut(rest, "\x1b")
		if !ok {
			break
		}
		if end := strings.IndexFunc(after, func(r rune) bool { return r >= '@' && r != '[' }); !strings.HasPrefix(after, "[") || end < 0 || after[end] != 'm' {
			t.Errorf("%s: a sequence that is no colour: %.20q", what, after)
		}
		rest = after
	}
}

func TestASCII(t *testing.T) {
	m := testModel(t, 130, 40)
	m.ascii = true
	feedRecords(m, message(1, "", "metamcp/pool/breaker/ü", strings.Repeat("lange", 40)))
	for _, keys := range [][]string{nil, {"tab"}, {"tab", "enter"}, {"?"}} {
		press(m, keys...)
		if text := m.View().Content; strings.ContainsFunc(text, func(r rune) bool { return r > 126 }) {
			t.Errorf("after %q:\n%s", keys, text)
		}
	}
}
