package metamcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

// refusing is a server that has resources and does not list them, and what the host
// logs meanwhile.
type refusing struct {
	mu    sync.Mutex
	why   string
	tools string        // that it lists
	lists string        // its resources; "": it refuses
	hold  chan struct{} // it lists nothing before this is closed; nil: at once
	held  chan struct{} // gets one for each that waits for that
	asked int
	log   strings.Builder
}

func (s *refusing) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

// counts are how often it was asked, and how often the host said that.
func (s *refusing) counts() (asked, warned int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, strings.Count(s.log.String(), "a list of a server is not shown")
}

func (s *refusing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := `"error":{"code":-32601,"message":"no such method"}`
	switch m.Method {
	case "initialize":
		answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"x","version":"1"}}`
	case "ping", "resources/subscribe":
		answer = `"result":{}`
	case "tools/list":
		s.mu.Lock()
		answer = `"result":{"tools":[` + s.tools + `]}`
		s.mu.Unlock()
	case "resources/list":
		s.mu.Lock()
		s.asked++
		answer = `"error":{"code":-32000,"message":"` + s.why + `"}`
		if s.lists != "" {
			answer = `"result":{"resources":[` + s.lists + `]}`
		}
		s.mu.Unlock()
		if s.hold != nil {
			s.held <- struct{}{}
			<-s.hold
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer) // who asked may be gone
}

// deaf is a client that needs no updates.
type deaf struct{}

func (deaf) Updated(string, json.RawMessage) {}

// A server that refuses its list is not asked, nor spoken of, with each request of a
// client; it is as soon as the list may be another one.
func TestRefusedListIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := &refusing{why: "not today"}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"x":{"url":"`+web.URL+`"}},"metamcp":{"expose":["resources"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.NewTextHandler(s, nil))})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// That its child has come marks the lists as changed. Who is subscribed has heard
	// of that before.
	subscribed := make(chan *messages.Answer, 1)
	e.core.Subscribe(&actors.Subscribe{
		Topic: actors.Topic{Server: "x", URI: "u"}, As: "u", Port: deaf{}, Call: front.NextCall(),
		Reply: func(failure *messages.Answer) { subscribed <- failure },
	})
	select {
	case failure := <-subscribed:
		if failure != nil {
			t.Fatalf("%+v", failure)
		}
	case <-ctx.Done():
		t.Fatal("no answer to a subscription")
	}
	lists := func(wantAsked, wantWarned int) {
		t.Helper()
		for range 10 {
			if m := e.expose.lists.all(ctx, listResources); m.servers != "x" || len(m.owners) > 0 {
				t.Fatalf("%v of %q", m.owners, m.servers)
			}
		}
		if asked, warned := s.counts(); asked != wantAsked || warned != wantWarned {
			t.Errorf("asked %d times instead of %d, warned %d times instead of %d", asked, wantAsked, warned, wantWarned)
		}
	}
	lists(1, 1)
	e.expose.listChanged("x", actors.ResourceList)
	lists(2, 1)
	s.mu.Lock()
	s.why = "never again"
	s.mu.Unlock()
	e.expose.listChanged("x", "") // another child
	lists(3, 2)
}

// Tools are named once for all who ask, and not again where a listing has the same ones.
func TestToolsAreNamedOnce(t *testing.T) {
	t.Parallel()
	tools := func(description string, names ...string) string {
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = `{"name":"` + name + `","description":"` + description + `","inputSchema":{"type":"object"}}`
		}
		return strings.Join(list, ",")
	}
	const all = 2000
	names := make([]string, all)
	for i := range names {
		names[i] = fmt.Sprintf("tool.%d", all-i)
	}
	s := &refusing{tools: tools("Old.", names...)}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	r := openReloading(t, `{"mcpServers":{"x":{"url":"`+web.URL+`"}},"metamcp":{"expose":["tools"]}}`)
	var before *index.Catalog
	// sets are how often the tools are named for many who ask after a listing.
	sets := func() (named map[uintptr]bool, set *namedSet) {
		t.Helper()
		if err := r.e.contact(t.Context(), "x", true); err != nil {
			t.Fatal(err)
		}
		cat := r.e.core.Catalog()
		if cat == before {
			t.Fatal("the listing made no catalog")
		}
		before = cat
		const callers = 50
		got := make([]*namedSet, callers)
		var came, asking sync.WaitGroup
		came.Add(callers)
		r.e.expose.names.mu.Lock() // nobody is done with naming before all ask
		for i := range callers {
			asking.Go(func() {
				came.Done()
				got[i] = r.e.expose.toolSet().named
			})
		}
		came.Wait()
		for range 10 * callers {
			runtime.Gosched()
		}
		r.e.expose.names.mu.Unlock()
		asking.Wait()
		named = map[uintptr]bool{}
		for _, set := range got {
			named[reflect.ValueOf(set.owners).Pointer()] = true
		}
		return named, got[0]
	}
	first, old := sets()
	if len(first) != 1 {
		t.Errorf("the tools were named %d times", len(first))
	}
	if again, _ := sets(); !maps.Equal(again, first) {
		t.Error("the same tools were named again")
	}
	change := func(tools string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tools = tools
	}
	change(tools("New.", names...))
	again, set := sets()
	if !maps.Equal(again, first) {
		t.Error("tools with other descriptions were named again")
	}
	for _, name := range names {
		as := "x__" + plainName(name)
		if is := string(set.definition(as)); is != tools("New.", name) || string(old.definition(as)) != tools("Old.", name) {
			t.Fatalf("%s is %s, and was %s", as, is, old.definition(as))
		}
	}
	change(tools("New.", slices.Concat(names, []string{"one-more"})...))
	if again, set := sets(); maps.Equal(again, first) || set.definition("x__one-more") == nil {
		t.Error("a new tool was not named")
	}
}

// Servers that were contacted long ago are forgotten once for a list, not with each
// server that is contacted for it.
func TestContactsForListsAreForgottenOnce(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{"off":{"command":"none","disabled":true}},"metamcp":{"expose":["tools"]}}`)
	x := r.e.expose
	long, short := time.Now().Add(-askAgain), time.Now()
	x.asked["long ago"], x.asked["just now"] = &asking{at: long}, &asking{at: short}
	x.meet(t.Context(), func(*index.ServerEntry) bool { return true })
	if x.asked["long ago"] != nil || x.asked["just now"] == nil {
		t.Errorf("remembered: %v", slices.Collect(maps.Keys(x.asked)))
	}
}

// A read of a resource that nobody lists contacts no more servers at a time than a search
// does, and with it, and the next one no others while these have not answered.
func TestUnknownResourceDoesNotContactAllServers(t *testing.T) {
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
		if topic, err := r.e.expose.passedFor(nil).route("nobody://x"); err == nil {
			t.Fatalf("it is a resource of %q", topic.Server)
		}
	}
	const most = 4 * 20
	if c.count != most {
		t.Fatalf("%d servers were contacted, want %d", c.count, most)
	}
	waited := func() (n int) {
		r.e.expose.mu.Lock()
		defer r.e.expose.mu.Unlock()
		return len(r.e.expose.asked)
	}
	if n := waited(); n != most {
		t.Errorf("%d servers were waited for in vain, want %d", n, most)
	}
	for _, name := range slices.Sorted(maps.Keys(c.ports)) { // long after nobody waits any more
		c.answer(name, &Error{Code: messages.CodeConnection})
	}
	c.err = &Error{Code: messages.CodePoolSaturated}
	r.e.expose.meet(t.Context(), func(*index.ServerEntry) bool { return true })
	if n := waited(); c.count != most+1 || n != most {
		t.Errorf("of a full pool %d servers were asked for, want one, and %d count as asked, want %d", c.count-most, n, most)
	}
}

// A list is read of few servers at a time, however many there are that do not answer.
func TestListsOfManyServersAreNotReadAtOnce(t *testing.T) {
	t.Parallel()
	const most, all = 4, 12
	s := &refusing{hold: make(chan struct{}), held: make(chan struct{}, all)}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(s.hold) })
	servers := map[string]any{}
	for _, name := range manyServers(all) {
		servers[name] = map[string]any{"url": web.URL + "/" + name}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	r := openReloading(t, string(text))
	r.e.meetings.most = most
	for _, name := range manyServers(all) {
		if err := r.e.contact(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan *mergedList, 1)
	go func() { read <- r.e.expose.lists.all(ctx, listResources) }()
	for range most {
		select {
		case <-s.held:
		case <-time.After(time.Minute):
			t.Fatal("the lists are not read")
		}
	}
	cancel()
	<-read
	l := r.e.expose.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	under := 0
	for _, c := range l.lists {
		if c.reading != nil {
			under++
		}
	}
	if under != most {
		t.Errorf("the lists of %d servers are being read, want %d", under, most)
	}
}

// That the pool had no place for a server says nothing of the server's list.
func TestFullPoolIsNoAnswerOfAServer(t *testing.T) {
	t.Parallel()
	l := openReloading(t, `{"mcpServers":{}}`).e.expose.lists
	l.mu.Lock()
	defer l.mu.Unlock()
	key := listKey{"x", listResources}
	c := l.of(key, "")
	l.keep(key, c, nil, 0, &Error{Code: messages.CodePoolSaturated})
	if c.read || c.err != nil || time.Until(c.retry) > fullPause {
		t.Errorf("kept: read %v, %v, to be read again in %v", c.read, c.err, time.Until(c.retry))
	}
}
