package metamcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// contacted are servers that answer when the test says so.
type contacted struct {
	mu    sync.Mutex
	ports map[string]messages.ContactPort // that have no answer yet
	count int
	order []string
	named []string
	err   *Error // with which all answer at once; nil: none does
}

func (c *contacted) contact(server string, named bool, port messages.ContactPort) {
	c.mu.Lock()
	c.count++
	if named {
		c.named = append(c.named, server)
	}
	c.order = append(c.order, server)
	err := c.err
	if err == nil {
		c.ports[server] = port
	}
	c.mu.Unlock()
	if err != nil {
		port.Contacted(0, err)
	}
}

func (c *contacted) answer(server string, err *Error) {
	c.mu.Lock()
	port := c.ports[server]
	delete(c.ports, server)
	c.mu.Unlock()
	port.Contacted(0, err)
}

func manyServers(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("s%04d", i)
	}
	return names
}

// Searches contact a server once for all of them, and few at a time; each server has
// its turn.
func TestSearchesMeetServersTogether(t *testing.T) {
	t.Parallel()
	const most, all = 8, 20
	c := &contacted{ports: map[string]messages.ContactPort{}}
	m := newMeetings(most, c.contact)
	heard := make([]map[string]*Error, 3)
	ask := func(n int) *meetingAsker {
		heard[n] = map[string]*Error{}
		a := m.ask(manyServers(all), false, func(server string, err *Error) { heard[n][server] = err })
		a.begin()
		return a
	}
	first, second := ask(0), ask(1)
	if c.count != most {
		t.Fatalf("two searches contacted %d servers, want %d", c.count, most)
	}
	select {
	case <-second.more:
		t.Error("a search was told to go on for nothing")
	default:
	}
	first.leave()
	c.answer("s0003", nil)
	if _, told := heard[1]["s0003"]; !told || len(heard[0]) > 0 {
		t.Errorf("of the answer hear %v and %v", heard[0], heard[1])
	}
	select {
	case <-second.more:
	default:
		t.Fatal("a search that waits was not told that it may go on")
	}
	if second.begin(); c.count != most+1 {
		t.Errorf("%d were contacted after one has answered, want %d", c.count, most+1)
	}
	second.leave()
	for _, server := range slices.Sorted(maps.Keys(c.ports)) {
		c.answer(server, nil)
	}
	third := ask(2)
	defer third.leave()
	if want := manyServers(all)[most+1:][:most]; !slices.Equal(c.order[most+1:], want) {
		t.Errorf("the next search contacted %v, want %v", c.order[most+1:], want)
	}
	for done := 0; done < all; done++ { // whatever it begins behind, it meets all
		c.answer(c.order[most+1+done], nil)
		select {
		case <-third.more:
			third.begin()
		default: // it has begun all
		}
	}
	if len(heard[2]) != all || len(m.under) > 0 {
		t.Errorf("it heard of %d, and %d are under way", len(heard[2]), len(m.under))
	}
}

// Where the pool has no place for one, it is not asked for thousands more; but for
// one that a search names.
func TestSearchesLetAFullPoolBe(t *testing.T) {
	t.Parallel()
	c := &contacted{err: &Error{Code: messages.CodePoolSaturated}}
	m := newMeetings(8, c.contact)
	search := func(named bool, servers []string) (pending int) {
		a := m.ask(servers, named, func(_ string, err *Error) {
			if err.Code == messages.CodePoolSaturated {
				pending++
			}
		})
		defer a.leave()
		a.begin()
		return pending
	}
	const all = 1000
	for range 2 {
		if pending := search(false, manyServers(all)); pending != all || c.count != 1 {
			t.Errorf("%d are pending, and the pool was asked %d times, want %d and once", pending, c.count, all)
		}
	}
	if pending := search(true, []string{"s0007"}); pending != 1 || c.count != 2 {
		t.Errorf("one that was named: %d pending, the pool was asked %d times in all, want 2", pending, c.count)
	}
	m.full = time.Now().Add(-fullPause)
	if search(false, manyServers(all)); c.count != 3 {
		t.Errorf("after a while the pool was asked %d times in all, want 3", c.count)
	}
}

// A search that names a server does not wait for a contact that gives way to calls; one
// that names none waits for either.
func TestASearchThatNamesAServerContactsIt(t *testing.T) {
	t.Parallel()
	c := &contacted{ports: map[string]messages.ContactPort{}}
	m := newMeetings(8, c.contact)
	var heard []int
	ask := func(n int, named bool) {
		a := m.ask([]string{"s"}, named, func(string, *Error) { heard = append(heard, n) })
		t.Cleanup(a.leave)
		a.begin()
	}
	ask(0, false)
	guess := c.ports["s"]
	for n := 1; n <= 3; n++ {
		ask(n, n < 3)
	}
	if c.count != 2 || len(c.named) != 1 {
		t.Errorf("it was contacted %d times, %d of them as one that was named, want 2 and 1", c.count, len(c.named))
	}
	guess.Contacted(0, nil)
	if ask(4, true); c.count != 2 || !slices.Equal(heard, []int{0}) {
		t.Errorf("%v have heard of the first, and it was contacted %d times", heard, c.count)
	}
	c.answer("s", nil)
	if len(heard) != 5 || len(m.under) > 0 {
		t.Errorf("%v have heard, and %d are under way", heard, len(m.under))
	}
}

// Servers that never answer are contacted by one of two searches, and not all at once.
func TestUnseenServersAreNotContactedWithEachSearch(t *testing.T) {
	t.Parallel()
	const all = 3000
	servers := map[string]any{}
	for _, name := range manyServers(all) {
		servers[name] = map[string]any{"command": "none"}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers, "metamcp": map[string]any{"discoverTimeoutMs": 1, "pool": map[string]any{"poolSize": 1000, "maxStarts": 20}}})
	if err != nil {
		t.Fatal(err)
	}
	r := openReloading(t, string(text))
	c := &contacted{ports: map[string]messages.ContactPort{}}
	r.e.meetings.contact = c.contact
	for range 2 {
		found, err := r.e.Search(t.Context(), "anything", SearchOptions{})
		if err != nil || len(found.Pending) != all {
			t.Fatalf("%d are pending, %v", len(found.Pending), err)
		}
	}
	if want := 4 * 20; c.count != want {
		t.Errorf("%d servers were contacted, want %d", c.count, want)
	}
	if _, err := r.e.Search(t.Context(), "anything", SearchOptions{Server: "s2999"}); err != nil || c.order[len(c.order)-1] != "s2999" {
		t.Errorf("the server that was named was not contacted, or %v", err)
	}
}
