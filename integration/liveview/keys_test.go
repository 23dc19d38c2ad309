package liveview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/messages"
)

// stream is what the messages' pane shows, oldest first: the types.
func stream(m *model) string {
	var types []string
	_, after, _ := strings.Cut(screen(m), " messages")
	for line := range strings.SplitSeq(after, "\n") {
		if words := strings.Fields(line); len(words) > 2 && strings.Contains(line, "→") {
			for _, w := range words {
				if strings.HasPrefix(w, "T") {
					types = append(types, w)
				}
			}
		}
	}
	return strings.Join(types, " ")
}

// feedTypes feeds messages whose types are T and a number.
func feedTypes(m *model, from, to int) {
	for i := from; i <= to; i++ {
		feedRecords(m, message(uint64(i), "metamcp/session/1", "metamcp/pool/breaker/files~1", fmt.Sprintf("T%d", i)))
	}
}

func TestFilter(t *testing.T) {
	records := []messages.TraceRecord{
		message(1, "metamcp/session/1", "metamcp/pool/breaker/files~1", "T1"),
		message(2, "metamcp/session/1", "metamcp/pool/breaker/files~1/conn#1", "T2"),
		message(3, "metamcp/session/1", "metamcp/pool/breaker/mail~2", "T3"),
		{Kind: messages.TraceMessage, To: "metamcp/index", Type: "T4", Outcome: "panic"},
	}
	for _, test := range []struct{ filter, want string }{
		{"", "T1 T2 T3 T4"},
		{"server=files", "T1 T2"},
		{"server=files #1", "T1"},
		{"errors", "T4"},
		{"INDEX", "T4"},
		{"type=T[12] conn#1", "T2"},
		{"request=3", "T3"},
		{"actor=*mail*", "T3"},
		{"nothing", ""},
	} {
		t.Run(test.filter, func(t *testing.T) {
			m := testModel(t, 100, 40)
			feedRecords(m, records...)
			press(m, "/")
			typeText(m, test.filter)
			press(m, "enter")
			if got := stream(m); got != test.want {
				t.Errorf("%q, want %q in\n%s", got, test.want, screen(m))
			}
			feedRecords(m, records...)
			if got, twice := stream(m), strings.TrimSpace(test.want+" "+test.want); got != twice {
				t.Errorf("and those that come: %q, want %q", got, twice)
			}
			if press(m, "esc"); len(strings.Fields(stream(m))) != 8 {
				t.Errorf("without the filter:\n%s", screen(m))
			}
		})
	}
}

func TestFilterPrompt(t *testing.T) {
	m := testModel(t, 100, 40)
	feedTypes(m, 1, 3)
	press(m, "/")
	typeText(m, "request=x")
	press(m, "enter")
	if !strings.Contains(screen(m), "a request is a number") || m.prompt == nil {
		t.Errorf("no number:\n%s", screen(m))
	}
	press(m, "backspace", "2", "enter")
	if stream(m) != "T2" {
		t.Errorf("mended:\n%s", screen(m))
	}
	press(m, "/", "ctrl+u")
	m.Update(tea.PasteMsg{Content: "request=3\x1b[2J"})
	if got := m.prompt.text; got != "request=3\uFFFD[2J" {
		t.Errorf("pasted: %q", got)
	}
	if press(m, "q") || m.prompt == nil {
		t.Error("q is a letter here")
	}
	if press(m, "esc"); m.query.text != "request=2" {
		t.Errorf("esc keeps the filter: %q", m.query.text)
	}
	if !press(m, "q") || !press(m, "/", "ctrl+c") {
		t.Error("q and ctrl+c quit")
	}
}

func TestPause(t *testing.T) {
	m := testModel(t, 100, 40)
	feedTypes(m, 1, 2)
	press(m, "p")
	feedTypes(m, 3, 4)
	if stream(m) != "T1 T2" || !strings.Contains(screen(m), "paused, +2") {
		t.Errorf("paused:\n%s", screen(m))
	}
	press(m, "p")
	if stream(m) != "T1 T2 T3 T4" || strings.Contains(screen(m), "paused") {
		t.Errorf("going on:\n%s", screen(m))
	}
}

// The cursor stays on its message while others come, and goes with the newest
// from the end on.
func TestScroll(t *testing.T) {
	m := testModel(t, 60, 16)
	feedTypes(m, 1, 50)
	at := func(want string) {
		t.Helper()
		if got := m.selected(); got == nil || got.Type != want {
			t.Errorf("at %v, want %s", got, want)
		}
		if !strings.Contains(row(m, ">"), want+" ") {
			t.Errorf("%s is not seen:\n%s", want, screen(m))
		}
	}
	at("T50")
	press(m, "up", "up")
	at("T48")
	feedTypes(m, 51, 90)
	at("T48")
	press(m, "home")
	at("T1")
	press(m, "pgdown", "down", "k")
	at(fmt.Sprintf("T%d", 1+m.page(paneMessages)))
	press(m, "end")
	feedTypes(m, 91, 92)
	at("T92")
	press(m, "pgup")
	m.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 16})
	at(fmt.Sprintf("T%d", 92-m.page(paneMessages)))

	press(m, "home")
	var many []messages.TraceRecord
	for i := range Kept {
		many = append(many, message(1, "a", "b", fmt.Sprintf("T%d", 1000+i)))
	}
	feedRecords(m, many...)
	at("T1000") // T1 has gone
	if m.records.end()-m.records.first != Kept {
		t.Errorf("%d are kept", m.records.end()-m.records.first)
	}
}

func TestActorsPane(t *testing.T) {
	m := testModel(t, 100, 40)
	feedTypes(m, 1, 1)
	feedRecords(m, message(2, "metamcp/session/1", "metamcp/index", "T2"))
	press(m, "tab", "down")
	if m.tree.selected() != "metamcp/index" {
		t.Fatalf("on %q", m.tree.selected())
	}
	press(m, "enter")
	if stream(m) != "T2" {
		t.Errorf("only the index:\n%s", screen(m))
	}
	press(m, "end")
	if m.tree.selected() != "metamcp/session/1" {
		t.Errorf("at the end: %q", m.tree.selected())
	}
	st := testStatus(start.Add(time.Second))
	st.Actors = append(st.Actors, messages.ActorStatus{ID: "metamcp/aaa"}, messages.ActorStatus{ID: "metamcp/session/2"})
	m.Update(frame{now: start.Add(time.Second), status: st})
	m.View()
	if m.tree.selected() != "metamcp/session/1" {
		t.Errorf("others came: %q", m.tree.selected())
	}
}

func TestOpenedRequest(t *testing.T) {
	m := testModel(t, 120, 24)
	const conn = "metamcp/pool/breaker/files~1/conn#1"
	feedRecords(m,
		messages.TraceRecord{Kind: messages.TraceRequest, Request: 7, To: "metamcp/session/1", Server: "files", Tool: "read"},
		message(7, "metamcp/session/1", "metamcp/pool/breaker/files~1", "Call"),
		message(8, "metamcp/session/1", "metamcp/pool/breaker/files~1", "Other"),
		message(7, "metamcp/pool/breaker/files~1", conn, "Go"))
	press(m, "enter")
	if text := screen(m); !strings.Contains(text, "request 7  files/read") || !strings.Contains(text, "no answer") || !strings.Contains(text, "Go ") || strings.Contains(text, "Other") || strings.Contains(text, "not kept") {
		t.Errorf("opened:\n%s", text)
	}
	feedRecords(m, messages.TraceRecord{Kind: messages.TraceAnswer, Request: 7, To: "metamcp/session/1", Server: "files", Tool: "read", Outcome: "ok", RanNs: 5e6})
	if text := screen(m); !strings.Contains(text, "answer ok after 5.00ms") {
		t.Errorf("and what comes:\n%s", text)
	}
	var many []messages.TraceRecord
	for i := range 2 * quick {
		many = append(many, messages.TraceRecord{Kind: "late", Request: 7, Span: uint64(i), To: conn, Detail: fmt.Sprintf("number %d", i)})
	}
	feedRecords(m, many...)
	feedRecords(m, messages.TraceRecord{Kind: "late", Request: 7, To: conn, Detail: "the very last"})
	if press(m, "end"); strings.Contains(screen(m), "the very last") {
		t.Errorf("so many records are drawn with each frame:\n%s", screen(m))
	}
	m.Update(frame{now: m.now.Add(2 * time.Second)})
	if press(m, "end"); !strings.Contains(screen(m), "the very last") {
		t.Errorf("a second later:\n%s", screen(m))
	}
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 9})
	press(m, "end")
	if text := screen(m); !strings.Contains(text, "the very last") {
		t.Errorf("small, at the end:\n%s", text)
	}
	press(m, "esc")
	if m.opened != nil {
		t.Error("esc goes back")
	}
	m.Update(tea.WindowSizeMsg{Width: 120, Height: 24})
	feedRecords(m, message(9, "", conn, "Late"))
	press(m, "end", "enter")
	if text := screen(m); !strings.Contains(text, "first records are not kept") {
		t.Errorf("a request whose beginning has gone:\n%s", text)
	}
	press(m, "esc")
	feedRecords(m, messages.TraceRecord{Kind: messages.TraceMessage, To: "metamcp/pool", Type: "Tick", Span: 5, Detail: "own\x1b[2J"})
	press(m, "end", "enter")
	if text := screen(m); !strings.Contains(text, "the host's own work") || !strings.Contains(text, "detail    own\uFFFD[2J") {
		t.Errorf("no request:\n%s", text)
	}
}

// The filter for an actor finds it, whatever its name is, and nothing else.
func TestFilterOnActor(t *testing.T) {
	for _, id := range []string{"metamcp/pool", "a b\u3000c", `a\b*[c]?`, "a\x1b\u202Eb\xff", "a/b/c"} {
		q, err := parseQuery(onActor(id))
		if err != nil || len(q.words) > 0 || strings.ContainsFunc(q.text, obeyed) {
			t.Errorf("%q: %q, %v", id, q.text, err)
			continue
		}
		for actor, want := range map[string]bool{id: true, id + "/conn#1": true, id + "x": false, "x" + id: false, "": false} {
			if got := q.wants(&messages.TraceRecord{Kind: messages.TraceMessage, To: actor}); got != want {
				t.Errorf("%q wants %q: %v", q.text, actor, got)
			}
		}
	}
}

// With a filter, records that fit are kept when all others have gone.
func TestFilterKeepsWhatFits(t *testing.T) {
	m := testModel(t, 100, 24)
	q, err := parseQuery("type=T1")
	if err != nil {
		t.Fatal(err)
	}
	m.setQuery(q)
	feedTypes(m, 1, 1)
	var many []messages.TraceRecord
	for range Kept + 5 {
		many = append(many, message(2, "a", "b", "X"))
	}
	feedRecords(m, many...)
	if stream(m) != "T1" {
		t.Errorf("\n%s", screen(m))
	}
	if press(m, "enter"); !strings.Contains(screen(m), "T1") {
		t.Errorf("opened:\n%s", screen(m))
	}
}

// Whatever comes in whatever order, the screen fits and nothing panics.
func TestAnything(t *testing.T) {
	t.Parallel()
	keys := []string{"tab", "enter", "esc", "up", "down", "pgup", "pgdown", "home", "end", "p", "/", "?", "x", "=", "backspace", "ctrl+u", "s", "ü"}
	rapid.Check(t, func(rt *rapid.T) {
		m := testModel(t, 80, 24)
		rt.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { fits(t, m, "anything") },
			"key": func(rt *rapid.T) {
				press(m, rapid.SampledFrom(keys).Draw(rt, "key"))
			},
			"size": func(rt *rapid.T) {
				m.Update(tea.WindowSizeMsg{Width: rapid.IntRange(0, 130).Draw(rt, "width"), Height: rapid.IntRange(0, 30).Draw(rt, "height")})
			},
			"records": func(rt *rapid.T) {
				text := rapid.String()
				feedRecords(m, messages.TraceRecord{
					Kind: rapid.SampledFrom([]string{"message", "request", "answer", "transition", "dropped", "start", "?"}).Draw(rt, "kind"),
					Time: time.Unix(rapid.Int64().Draw(rt, "time"), 0), Request: rapid.Uint64().Draw(rt, "request"), From: text.Draw(rt, "from"), To: text.Draw(rt, "to"),
					Type: text.Draw(rt, "type"), Before: text.Draw(rt, "before"), After: text.Draw(rt, "after"), WaitNs: rapid.Int64().Draw(rt, "wait"),
					RanNs: rapid.Int64().Draw(rt, "ran"), Server: text.Draw(rt, "server"), Bytes: rapid.Int().Draw(rt, "bytes"), Detail: text.Draw(rt, "detail"),
				})
			},
			"status": func(rt *rapid.T) {
				st := testStatus(start)
				st.Pool.Size, st.Pool.Used, st.Pool.Idle = rapid.Int().Draw(rt, "size"), rapid.Int().Draw(rt, "used"), rapid.Int().Draw(rt, "idle")
				for range rapid.IntRange(0, 3).Draw(rt, "actors") {
					st.Actors = append(st.Actors, messages.ActorStatus{ID: rapid.String().Draw(rt, "id"), Mailbox: rapid.Int().Draw(rt, "mailbox")})
				}
				m.Update(frame{now: start, status: st})
			},
			"link": func(rt *rapid.T) {
				m.Update(frame{now: start, link: &link{live: rapid.Bool().Draw(rt, "live"), run: rapid.IntRange(0, 3).Draw(rt, "run"), why: "gone", at: start}})
			},
		})
	})
}
