package metamcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// firstLists is an engine in which nobody watches for changes but its test, with two
// servers, of which b is held to have been asked a while ago.
func firstLists(t *testing.T) (e *Engine, a *slowLister) {
	t.Helper()
	a = &slowLister{held: make(chan struct{}, 16), now: `"result":{"resources":[{"uri":"u://a"}]}`}
	b := &slowLister{held: make(chan struct{}, 16), now: `"result":{"resources":[{"uri":"u://b"}]}`}
	webA, webB := httptest.NewServer(a), httptest.NewServer(b)
	t.Cleanup(webA.Close)
	t.Cleanup(webB.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"mcpServers":{"a":{"url":%q},"b":{"url":%q}}}`, webA.URL, webB.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	e = opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	x := e.expose
	entry, ok := e.core.Directory().Lookup("b")
	if !ok {
		t.Fatal("there is no b")
	}
	x.mu.Lock()
	x.asked[askedKey(entry)] = &asking{time.Now().Add(-askAgain / 2), make(chan struct{})}
	x.mu.Unlock()
	return e, a
}

// woken says whether whoever watches was told to look, which counts as done from then on.
func (x *exposure) woken() bool {
	select {
	case <-x.wake:
		return true
	default:
		return false
	}
}

// A server that comes while the first list is being made, and is not in it, is told.
func TestAServerThatComesDuringTheFirstListIsTold(t *testing.T) {
	t.Parallel()
	e, a := firstLists(t)
	x := e.expose
	x.resources = true
	answer := a.holds()
	made := make(chan *mergedList, 1)
	go func() { made <- x.lists.all(t.Context(), listResources) }()
	<-a.held
	if err := e.contact(t.Context(), "b", false); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if !x.woken() || e.core.Catalog().Server("b") == nil {
			return errors.New("nobody has heard of b")
		}
		return nil
	})
	if notices, _ := x.lists.renew(); len(notices) > 0 {
		t.Errorf("%v is told to clients that have no list", notices)
	}
	one := `"result":{"resources":[{"uri":"u://a"}]}`
	answer(one, one)
	if m := <-made; m.servers != "a" {
		t.Fatalf("the first list is one of %q, want a alone", m.servers)
	}
	if !x.woken() {
		t.Fatal("nobody looks for what came during the first list")
	}
	if notices, _ := x.lists.renew(); !slices.Contains(notices, mcp.MethodNotificationResourcesListChanged) {
		t.Errorf("told is %v", notices)
	}
}

// What changes while the first list of tools is being made is looked for once more,
// after that list alone.
func TestTheFirstToolsAreLookedAtOnceMore(t *testing.T) {
	t.Parallel()
	e, _ := firstLists(t)
	x := e.expose
	for _, name := range []string{"a", "b"} {
		if err := e.contact(t.Context(), name, false); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, time.Minute, func() error {
		if !x.woken() {
			return nil
		}
		return errors.New("the catalog changes")
	})
	for _, first := range []bool{true, false} {
		if _, err := x.listTools(t.Context(), "", messages.EraLegacy); err != nil {
			t.Fatal(err)
		}
		if x.woken() != first {
			t.Errorf("it is looked for changes: %v, want %v", !first, first)
		}
	}
}

// Late is who was contacted, whose list is being read for the first time, and who has not
// listed what it announced, each until it has answered.
func TestWhoIsLate(t *testing.T) {
	t.Parallel()
	e, a := firstLists(t)
	x := e.expose
	want := func(when string, kind listKind, names ...string) {
		t.Helper()
		if got := x.late(kind); !slices.Equal(got, names) {
			t.Errorf("%s %q are late, want %q", when, got, names)
		}
	}
	want("at first", listResources, "b")
	if err := e.contact(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	answer := a.holds()
	asked, cancel := context.WithCancel(t.Context())
	listed := make(chan struct{})
	go func() {
		defer close(listed)
		x.lists.all(asked, listResources)
	}()
	<-a.held
	want("while a list is read", listResources, "a", "b")
	want("while another list is read", listPrompts, "b")
	cancel()
	<-listed
	want("where nobody waits for the list any more", listResources, "a", "b")
	answer(`"result":{"resources":[]}`, `"result":{"resources":[]}`)
	testkit.Eventually(t, time.Minute, func() error {
		if slices.Contains(x.late(listResources), "a") {
			return errors.New("the list was answered")
		}
		return nil
	})
	entry, ok := e.core.Directory().Lookup("a")
	if !ok || !x.mayCatchUp(askedKey(entry)) {
		t.Fatal("a may not catch up")
	}
	want("while a lists what it announced", listPrompts, "a", "b")
	x.caughtUp(askedKey(entry))
	want("after that", listPrompts, "b")
	if entry, ok = e.core.Directory().Lookup("b"); !ok {
		t.Fatal("there is no b")
	}
	x.mu.Lock()
	close(x.asked[askedKey(entry)].done)
	x.mu.Unlock()
	want("at last", listResources)
}

// A list that may have changed is read while its server is there, and does not start it.
func TestAListThatChangedStartsNoServer(t *testing.T) {
	t.Parallel()
	e, _ := firstLists(t)
	l := e.expose.lists
	changed := listKey{"b", listResources}
	l.mu.Lock()
	l.lists[changed] = &childList{read: true, stale: true}
	l.mu.Unlock()
	if readings, next := l.beginDue(time.Now()); len(readings) > 0 || next != lastPause {
		t.Errorf("it is read, or looked at again in %s", next)
	}
	if err := e.contact(t.Context(), "b", false); err != nil {
		t.Fatal(err)
	}
	readings, _ := l.beginDue(time.Now())
	if len(readings) != 1 {
		t.Fatalf("%d lists are read", len(readings))
	}
	<-readings[0]
}
