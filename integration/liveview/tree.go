package liveview

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/tracelog"
	"github.com/metamcp/metamcp/messages"
)

// maxChanges bounds the states that are known from records alone; the next
// status tells the others.
const maxChanges = 4096

// tree is what is known of the actors: from the host's own description, and
// from the records since.
type tree struct {
	rows     []actor // parents before their children
	at       time.Time
	servers  map[string]*messages.HostServer // by the path of their breaker
	conns    map[string]*messages.Instance
	changes  map[string]change
	scroller scroller
	stale    bool // rows lack an actor of changes
	mailbox  map[string]int
}

// actor is one line of the tree.
type actor struct {
	id    string
	label string // the last part of id, behind its branches
	depth int
	last  bool   // of its siblings
	more  []bool // of each of its ancestors: siblings follow
}

// change is a state that a record told.
type change struct {
	state string
	at    time.Time
}

// update takes what the host says of itself.
func (t *tree) update(st *messages.HostStatus) {
	t.at = st.At
	t.servers, t.conns, t.mailbox = map[string]*messages.HostServer{}, map[string]*messages.Instance{}, map[string]int{}
	byName := map[string]*messages.HostServer{}
	for i := range st.Servers {
		s := &st.Servers[i]
		byName[s.Name] = s
		for j := range s.Instances {
			t.conns[s.Instances[j].Actor] = &s.Instances[j]
		}
	}
	for _, a := range st.Actors {
		t.mailbox[a.ID] = a.Mailbox
		if s := byName[tracelog.ServerOf(&messages.TraceRecord{To: a.ID})]; s != nil && isBreaker(a.ID) {
			t.servers[a.ID] = s
		}
	}
	for id, c := range t.changes {
		if !c.at.After(t.at) {
			delete(t.changes, id)
		}
	}
	t.stale = true
}

// record takes the state that a record tells.
func (t *tree) record(r *messages.TraceRecord) {
	state, at := r.After, r.Time
	switch {
	case r.Kind == "transition":
		_, after, ok := strings.Cut(r.Detail, " → ")
		if !ok {
			return
		}
		state, _, _ = strings.Cut(after, " ")
	case r.Kind == messages.TraceMessage && r.After != "":
		at = at.Add(time.Duration(r.WaitNs) + time.Duration(r.RanNs))
	default:
		return
	}
	old, known := t.changes[r.To]
	if !at.After(t.at) || known && old.at.After(at) || !known && len(t.changes) >= maxChanges {
		return
	}
	if t.changes == nil {
		t.changes = map[string]change{}
	}
	t.changes[r.To] = change{state: state, at: at}
	if _, there := t.mailbox[r.To]; !there && !known && t.mailbox != nil {
		t.stale = true
	}
}

// lines returns the tree, built anew where actors have come or gone.
func (t *tree) lines() []actor {
	t.scroller.loose = true // the last actor is no better than others
	if !t.stale {
		return t.rows
	}
	selected := t.selected()
	t.stale = false
	ids := make([]string, 0, len(t.mailbox))
	for id := range t.mailbox {
		ids = append(ids, id)
	}
	for id, c := range t.changes {
		if _, there := t.mailbox[id]; !there && c.state != "CLOSED" && t.mailbox != nil {
			ids = append(ids, id)
		}
	}
	t.rows = branches(ids)
	if i := slices.IndexFunc(t.rows, func(a actor) bool { return a.id == selected }); i >= 0 {
		t.scroller.cursor = uint64(i)
	}
	return t.rows
}

// branches makes a tree of paths.
func branches(ids []string) []actor {
	slices.SortFunc(ids, natural)
	rows := make([]actor, len(ids))
	var above []int // the rows of the ancestors
	for i, id := range ids {
		for len(above) > 0 && !strings.HasPrefix(id, ids[above[len(above)-1]]+"/") {
			above = above[:len(above)-1]
		}
		label := id
		if len(above) > 0 {
			label = strings.TrimPrefix(strings.TrimPrefix(id, ids[above[len(above)-1]]+"/"), "breaker/")
		}
		rows[i] = actor{id: id, label: clean(label, maxName), depth: len(above), last: true}
		above = append(above, i)
	}
	// From the end on, a row is its parent's last child unless one was seen.
	var follows []bool
	for i := len(rows) - 1; i >= 0; i-- {
		d := rows[i].depth
		for len(follows) <= d {
			follows = append(follows, false)
		}
		rows[i].last = !follows[d]
		rows[i].more = slices.Clone(follows[:d])
		follows = follows[:d+1]
		follows[d] = true
	}
	return rows
}

// natural compares paths part by part, numbers in them by value.
func natural(a, b string) int {
	for a != "" && b != "" {
		if digit(a[0]) && digit(b[0]) {
			x, y := number(a), number(b)
			if c := len(x) - len(y); c != 0 {
				return c
			}
			if c := strings.Compare(x, y); c != 0 {
				return c
			}
			a, b = strings.TrimLeft(a, "0123456789"), strings.TrimLeft(b, "0123456789")
			continue
		}
		if a[0] != b[0] {
			// A child stands before whoever's name only begins like its parent's.
			if a[0] == '/' {
				return -1
			}
			if b[0] == '/' {
				return 1
			}
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// number is the number that a text begins with, without leading zeros.
func number(text string) string {
	return strings.TrimLeft(text[:len(text)-len(strings.TrimLeft(text, "0123456789"))], "0")
}

func (t *tree) move(by int) {
	n := uint64(len(t.lines()))
	if n == 0 {
		return
	}
	t.scroller.move(0, n, by)
	t.scroller.loose = true
}

// selected is the actor that is chosen; "" where there is none.
func (t *tree) selected() string {
	if len(t.rows) == 0 {
		return ""
	}
	return t.rows[min(t.scroller.cursor, uint64(len(t.rows)-1))].id
}

// state is an actor's state, and the style of it.
func (t *tree) state(id string, now time.Time) (text string, look look) {
	told := ""
	if c, ok := t.changes[id]; ok {
		told = c.state
	}
	if in := t.conns[id]; in != nil || told != "" && isConnection(id) {
		state, busy := told, ""
		if in != nil {
			if state == "" {
				state = in.State
			}
			if in.InFlight > 1 {
				busy = " " + strconv.Itoa(in.InFlight)
			}
		}
		return clean(state, maxName) + busy, lookOf(state)
	}
	s := t.servers[id]
	if s == nil {
		if told != "" && isBreaker(id) {
			return clean(told, maxName), lookOf(told)
		}
		return "", lookPlain
	}
	state := told
	if state == "" {
		state = s.Breaker
	}
	text = clean(state, maxName)
	switch left := s.RetryAt.Sub(now); {
	case s.Disabled:
		return "disabled", lookFaint
	case state == "closed" || s.Breaker != state:
	case left > 0:
		text += " " + seconds(left)
	case state == "open":
		text += ", may try"
	}
	return text, lookOf(state)
}

// seconds are those that are left, rounded up.
func seconds(d time.Duration) string {
	s := int64(math.Ceil(d.Seconds()))
	if s < 100 {
		return strconv.FormatInt(s, 10) + "s"
	}
	return age(d)
}

func isBreaker(id string) bool {
	_, rest, ok := strings.Cut(id, "/breaker/")
	return ok && !strings.Contains(rest, "/")
}

func isConnection(id string) bool {
	_, rest, ok := strings.Cut(id, "/breaker/")
	return ok && strings.Contains(rest, "/conn#")
}
