package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// refusing is a server that has resources and does not list them, and what the host
// logs meanwhile.
type refusing struct {
	mu    sync.Mutex
	why   string
	tools string // that it lists
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
	serveRPC(w, r, s.answer)
}

func (s *refusing) answer(method string) string {
	answer := noSuchMethod
	switch method {
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
		s.mu.Unlock()
	}
	return answer
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

// slowLister is a server that lists its resources when its test says so.
type slowLister struct {
	refusing
	held chan struct{} // a reading waits

	mu   sync.Mutex
	now  string      // what it answers
	hold chan string // where it takes the answer from instead; nil: it answers at once
}

func (s *slowLister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serveRPC(w, r, func(method string) string {
		if method != "resources/list" {
			return s.answer(method)
		}
		s.mu.Lock()
		now, hold := s.now, s.hold
		s.mu.Unlock()
		if hold != nil {
			s.held <- struct{}{}
			select {
			case now = <-hold:
			case <-r.Context().Done():
			}
		}
		return now
	})
}

// holds makes it answer the next reading with what goes into the channel, and each that
// begins later, once it went there, with then.
func (s *slowLister) holds() (answer func(now, then string)) {
	hold := make(chan string, 1)
	set := func(now string, to chan string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now, s.hold = now, to
	}
	set("", hold)
	return func(now, then string) {
		set(then, nil)
		hold <- now
	}
}

// A server that takes long to list what changed does not hold up what others have to
// tell, and is told itself when it is done, also where it changed meanwhile and could
// not be read the first time.
func TestSlowListHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	resource := func(uri string) string { return `"result":{"resources":[{"uri":"` + uri + `"}]}` }
	slow := &slowLister{held: make(chan struct{}, 16), now: resource("u://1")}
	other := &refusing{tools: `{"name":"one"}`}
	urls := map[string]string{}
	for name, s := range map[string]http.Handler{"slow": slow, "other": other} {
		web := httptest.NewServer(s)
		t.Cleanup(web.Close)
		urls[name] = web.URL
	}
	e := openReloading(t, fmt.Sprintf(`{"mcpServers":{"slow":{"url":%q},"other":{"url":%q}},"metamcp":{"expose":["tools","resources"]}}`, urls["slow"], urls["other"])).e
	x := e.expose
	if _, err := x.listTools(t.Context(), "", messages.EraLegacy); err != nil {
		t.Fatal(err)
	}
	if m := x.lists.all(t.Context(), listResources); m.owners["u://1"] == nil {
		t.Fatalf("listed are %v", m.owners)
	}
	// told waits until clients know of this resource and no other.
	told := func(uri string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			x.lists.mu.Lock()
			defer x.lists.mu.Unlock()
			c := x.lists.lists[listKey{"slow", listResources}]
			if len(c.items) != 1 || c.items[0].key != uri || c.told != c.print {
				return fmt.Errorf("there is %v, and clients know of it: %v", c.items, c.told == c.print)
			}
			return nil
		})
	}

	answer := slow.holds()
	x.listChanged("slow", actors.ResourceList)
	<-slow.held
	before := x.told.Load()
	other.mu.Lock()
	other.tools += `,{"name":"two"}`
	other.mu.Unlock()
	if err := e.contact(t.Context(), "other", true); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if x.told.Load() == before {
			return errors.New("nobody was told of the other server's tool")
		}
		return nil
	})
	answer(resource("u://2"), resource("u://2"))
	told("u://2")

	answer = slow.holds()
	x.listChanged("slow", actors.ResourceList)
	<-slow.held
	x.listChanged("slow", actors.ResourceList)
	testkit.Eventually(t, time.Minute, func() error {
		if len(x.wake) > 0 {
			return errors.New("nobody has looked at what changed during the reading")
		}
		return nil
	})
	answer(`"error":{"code":-32000,"message":"not now"}`, resource("u://3"))
	told("u://3")
}

// Whether secrets are taken out of lists follows the configuration, also where a list was
// kept, or its first page had come, before that changed.
func TestListsAreScrubbedAsTheConfigurationSays(t *testing.T) {
	t.Parallel()
	const secret = "c0nfigured-key"
	page := func(uri, next string) string {
		return `"result":{"resources":[{"uri":"` + uri + `","name":"n","description":"say ` + secret + `"}]` + next + `}`
	}
	var base refusing
	var lists atomic.Pointer[func(ctx context.Context) string]
	says := func(answer string) {
		f := func(context.Context) string { return answer }
		lists.Store(&f)
	}
	says(page("u://1", ""))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveRPC(w, r, func(method string) string {
			if method == "resources/list" {
				return (*lists.Load())(r.Context())
			}
			return base.answer(method)
		})
	}))
	t.Cleanup(web.Close)
	text := func(entry, all string) string {
		return `{"mcpServers":{"a":{"command":"none","disabled":true,"env":{"SOME_KEY":"` + secret + `"}},"x":{"url":"` + web.URL + `"` + entry + `}},"metamcp":{"expose":["resources"]` + all + `}}`
	}
	r := openReloading(t, text(`,"scrub":false`, ""))
	// shows looks at the list as clients are shown it.
	shows := func(when string, want bool, items int) {
		t.Helper()
		page, err := r.e.expose.lists.all(t.Context(), listResources).named.page("resources", "", nil, nil, messages.EraLegacy, false)
		if err != nil || strings.Count(string(page), `"uri"`) != items || strings.Contains(string(page), secret) != want {
			t.Errorf("%s: %s, %v", when, page, err)
		}
	}
	shows("of a server whose answers are left as they are", true, 1)
	steps := []struct {
		when, entry, all string
		shown            bool
	}{
		{"of one whose answers are scrubbed now", "", "", false},
		{"where nothing is scrubbed any more", "", `,"scrub":false`, true},
		{"where everything is again", "", "", false},
		{"of a server whose answers are left as they are again", `,"scrub":false`, "", true},
	}
	for _, step := range steps {
		r.write(text(step.entry, step.all))
		r.reload()
		shows(step.when, step.shown, 1)
	}

	// The first page came before the change, the second comes after it.
	var asked atomic.Int32
	second, goOn := make(chan struct{}), make(chan struct{})
	paged := func(ctx context.Context) string {
		switch asked.Add(1) {
		case 1:
			return page("u://1", `,"nextCursor":"2"`)
		case 2:
			close(second)
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return page("u://2", "")
		}
		return page("u://1", "")
	}
	lists.Store(&paged)
	r.e.expose.listChanged("x", actors.ResourceList)
	<-second
	r.write(text("", ""))
	r.reload()
	close(goOn)
	shows("of which a part had come", false, 1)

	// One that cannot be asked any more.
	r.write(text(`,"scrub":false`, ""))
	r.reload()
	shows("before its server refuses", true, 1)
	says(`"error":{"code":-32000,"message":"not now"}`)
	r.write(text("", ""))
	r.reload()
	shows("of a server that refuses to list it again", false, 0)
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
