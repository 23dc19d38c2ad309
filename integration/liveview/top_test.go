package liveview

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/metamcp/metamcp/messages"
)

// topStatus is a host with three servers after so many seconds.
func topStatus(seconds int) *messages.HostStatus {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	calls := uint64(100 + 50*seconds)
	return &messages.HostStatus{
		Name: "work", PID: 42, Version: "1", Started: start, At: start.Add(time.Duration(seconds) * time.Second),
		Servers: []messages.HostServer{
			{Name: "busy", State: "ACTIVE", Breaker: "closed", Instances: []messages.Instance{{PID: 1, InFlight: 2}, {PID: 2}},
				Counts: messages.ServerCounts{Spawns: 5}, Calls: messages.ServerCalls{Total: calls, Failed: 3, P50: 1.5, P99: 12_345},
				Usage: &messages.ProcessUsage{Processes: 4, Memory: 3 << 20, CPU: int64(500 * seconds)}},
			{Name: "idle\x1b[2J", State: "IDLE", Breaker: "closed", Instances: []messages.Instance{{PID: 3}}, Counts: messages.ServerCounts{Spawns: 1},
				Usage: &messages.ProcessUsage{Processes: 1, Memory: 2 << 30}},
			{Name: "never", State: "IDLE", Breaker: "closed"},
			{Name: "broken", State: "IDLE", Breaker: "open", Counts: messages.ServerCounts{Spawns: 3}},
		},
	}
}

func TestTopRows(t *testing.T) {
	rows := TopRows(topStatus(0), topStatus(2))
	busy := rows[0]
	if busy.Instances != 2 || busy.InFlight != 2 || busy.Rate != 50 || busy.Restarts != 3 || busy.CPU < 49 || busy.CPU > 50 || !busy.Measured || busy.Processes != 4 {
		t.Errorf("%+v", busy)
	}
	other := topStatus(0)
	other.Started = other.Started.Add(time.Hour)
	if r := TopRows(other, topStatus(2))[0]; r.Rate != 0 || r.CPU != 0 {
		t.Errorf("with another host before: %+v", r)
	}
	if r := TopRows(topStatus(2), topStatus(0))[0]; r.Rate != 0 || r.CPU != 0 {
		t.Errorf("backwards: %+v", r)
	}
	for column, want := range map[string]string{
		"server": "broken busy idle never", "memory": "idle busy broken never", "calls/s": "busy broken idle never", "restarts": "busy broken idle never", "p99": "busy broken idle never",
	} {
		if !SortTop(rows, column) {
			t.Fatalf("no column %s", column)
		}
		var names []string
		for _, r := range rows {
			names = append(names, strings.TrimSuffix(r.Server, "\x1b[2J"))
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %s: %s, want %s", column, got, want)
		}
	}
	if SortTop(rows, "no such") {
		t.Error("a column that is not there")
	}
	table := fmt.Sprint(TopTable(rows))
	for _, want := range []string{"SERVER STATE INSTANCES CALLS FAILED CALLS/S P50 P99 MEMORY CPU RESTARTS", "busy active 2 200 3 50.0 1.50ms 12.3s 3.0M ", "never - 0 0 0 0.0 - - - - 0", "2.00G", "broken open"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q: %s", want, table)
		}
	}
	if strings.Contains(table, "\x1b") {
		t.Error("a server's name reaches the terminal as it is")
	}
	keys := map[string]bool{"q": true, "a": true, "R": true, "j": true, "k": true, "g": true, "G": true}
	for _, c := range topColumns {
		if keys[c.key] {
			t.Errorf("the key %s has two meanings", c.key)
		}
		keys[c.key] = true
	}
}

func TestTopScreen(t *testing.T) {
	m := &topModel{model: model{name: "work", now: time.Now(), link: link{why: "attaching"}}, sort: slices.Index(TopSorts(), "calls/s")}
	send := func(msg tea.Msg) { m.Update(msg) }
	key := func(r rune) { send(tea.KeyPressMsg{Code: r, Text: string(r)}) }
	screen := func() string { return strings.Join(m.lines(), "\n") }
	send(tea.WindowSizeMsg{Width: 120, Height: 20})
	send(topFrame{now: time.Now(), status: topStatus(0)})
	send(topFrame{now: time.Now(), status: topStatus(1)})
	text := screen()
	if strings.Index(text, "busy") > strings.Index(text, "2.00G") || strings.Contains(text, "never") || !strings.Contains(text, "by calls/s") {
		t.Errorf("the screen is\n%s", text)
	}
	key('a')
	key('n')
	if text = screen(); !strings.Contains(text, "never") || strings.Index(text, "broken") > strings.Index(text, "busy") {
		t.Errorf("all by name:\n%s", text)
	}
	key('R')
	if text = screen(); strings.Index(text, "never") > strings.Index(text, "busy") || !strings.Contains(text, "reversed") {
		t.Errorf("reversed:\n%s", text)
	}
	send(topFrame{now: time.Now(), err: fmt.Errorf("gone")})
	if text = screen(); !strings.Contains(text, "ended") {
		t.Errorf("without its host:\n%s", text)
	}
	for w := range 60 {
		for h := range 12 {
			send(tea.WindowSizeMsg{Width: w, Height: h})
			key('j')
			lines := m.lines()
			if len(lines) > h {
				t.Fatalf("%d lines on %d", len(lines), h)
			}
			for _, l := range lines {
				if width(l) > w {
					t.Fatalf("%d columns on %d: %q", width(l), w, l)
				}
			}
		}
	}
	if cmd := m.topKey("q"); cmd == nil {
		t.Error("q does not quit")
	}
}
