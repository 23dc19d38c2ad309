package index

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/builtin"
	"github.com/metamcp/metamcp/index/store"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// counting is an embedder that notes which documents it was asked for.
type counting struct {
	embed.Embedder
	mu    sync.Mutex
	texts map[string]int
	fail  error // what Embed says; nil: the embedder behind is asked
}

func builtinEmbedder(t *testing.T) *counting {
	t.Helper()
	e, err := builtin.New()
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Embedder: e, texts: map[string]int{}}
}

func (c *counting) Embed(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return nil, c.fail
	}
	if kind == embed.Document {
		for _, text := range texts {
			c.texts[text]++
		}
	}
	return c.Embedder.Embed(ctx, kind, texts)
}

func (c *counting) failWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// embedded is how many texts were embedded, without the background; it fails
// the test where one was embedded twice.
func (c *counting) embedded(t *testing.T) int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for text, n := range c.texts {
		if n > 1 {
			t.Errorf("%q was embedded %d times", text, n)
		}
	}
	n := len(c.texts)
	for _, p := range newBackground().passages {
		if text := p.embeddable(); c.texts[text] > 0 {
			n--
		}
	}
	return n
}

// host is an index actor as a host runs it, over the folder of a test; "": nothing is
// kept on disk.
type host struct {
	*testing.T
	sys  *kernel.System
	pid  *kernel.PID
	view *View
	done <-chan struct{}
	once sync.Once
}

var shop = []string{
	definition("create_invoice", "Make a bill for a customer.", browserSchema),
	definition("take_screenshot", "Capture what the browser shows as an image.", browserSchema),
	definition("sendMail", "Deliver a letter to somebody's inbox.", browserSchema),
}

func newHost(t *testing.T, dir string, e embed.Embedder, servers map[string][]string) *host {
	t.Helper()
	h := &host{T: t, sys: kernel.New(slog.New(slog.DiscardHandler)), view: &View{}}
	cataloged := make(chan string, 100)
	deps := &ActorDeps{
		View:       h.view,
		StoreRetry: 20 * time.Millisecond,
		Notify:     func(server string, _ any) { cataloged <- server },
		Warn:       func(string, ...any) {},
		Info:       func(string, ...any) {},
	}
	if dir != "" {
		deps.Cache, deps.StorePath = NewCache(dir, func(s string) string { return s }), filepath.Join(dir, "catalog")
	}
	var err error
	h.pid, h.done, err = h.sys.SpawnRoot("index", NewActor(deps), func(reason any) { t.Errorf("the actor gave up: %v", reason) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	h.sys.Send(h.pid, &UseEmbedder{Embedder: e})
	var specs []*messages.ServerSpec
	for name := range servers {
		specs = append(specs, &messages.ServerSpec{Name: name, Hash: "h"})
	}
	known := make(chan struct{})
	h.sys.Send(h.pid, &Known{Specs: specs, Done: known})
	h.wait(known)
	for name, tools := range servers {
		if tools == nil {
			continue
		}
		page := fmt.Sprintf(`{"tools":[%s]}`, strings.Join(tools, ","))
		h.sys.Send(h.pid, &messages.Listing{Server: name, Pages: [][]byte{[]byte(page)}, SpecHash: "h"})
		select {
		case <-cataloged:
		case <-time.After(patience):
			t.Fatal("a listing was not taken in")
		}
	}
	return h
}

func (h *host) wait(done <-chan struct{}) {
	h.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		h.Fatal("nothing came in time")
	}
}

// settle waits until all is embedded, and returns the status.
func (h *host) settle() Status {
	h.Helper()
	done := make(chan struct{})
	h.sys.Send(h.pid, &Settle{Done: done})
	h.wait(done)
	return h.view.Status()
}

// until waits for a status.
func (h *host) until(what string, ok func(Status) bool) {
	h.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !ok(h.view.Status()) {
		select {
		case <-tick.C:
		case <-limit:
			h.Fatalf("never %s: %+v", what, h.view.Status())
		}
	}
}

func (h *host) close() {
	h.once.Do(func() {
		h.sys.Stop(h.pid)
		h.wait(h.done)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.sys.Shutdown(ctx); err != nil {
			h.Error(err)
		}
	})
}

func (h *host) best(query string) string {
	h.Helper()
	matches, note, _ := NewSearcher(h.view).Search(h.Context(), Hybrid{}, Query{Text: query})
	if note != "" {
		h.Errorf("%q: %s", query, note)
	}
	if len(matches) == 0 {
		return ""
	}
	return matches[0].Entry.Tool.Name
}

func TestToolsAreEmbeddedOnce(t *testing.T) {
	dir := t.TempDir()
	first := builtinEmbedder(t)
	h := newHost(t, dir, first, map[string][]string{"shop": shop, "twin": {shop[0]}})
	st := h.settle()
	if st.Storage != StorageDisk || st.Embedded != 4 || st.Wanted != 4 || st.Trouble != nil {
		t.Errorf("after the first listing: %+v", st)
	}
	n := first.embedded(t)
	if n == 0 {
		t.Fatal("nothing was embedded")
	}
	for query, want := range map[string]string{
		"picture of the web page": "take_screenshot", "write an email to my boss": "sendMail", "charge the customer": "create_invoice",
	} {
		if got := h.best(query); got != want {
			t.Errorf("%q found %q, want %q", query, got, want)
		}
	}
	// The same tools again, with one changed.
	changed := append([]string{definition("create_invoice", "Make a receipt.", browserSchema)}, shop[1:]...)
	h.sys.Send(h.pid, &messages.Listing{Server: "shop", Pages: [][]byte{[]byte(`{"tools":[` + strings.Join(changed, ",") + `]}`)}, SpecHash: "h"})
	h.settle()
	if got := first.embedded(t); got != n+1 {
		t.Errorf("after one of the tools changed %d texts are embedded, want %d", got, n+1)
	}
	h.close()

	second := builtinEmbedder(t)
	h = newHost(t, dir, second, map[string][]string{"shop": nil, "twin": nil})
	st = h.settle()
	if got := second.embedded(t); got != 0 || st.FromStore != 4 || st.Embedded != 4 {
		t.Errorf("the next host embedded %d texts; %+v", got, st)
	}
	if got := h.best("picture of the web page"); got != "take_screenshot" {
		t.Errorf("from the store, found %q", got)
	}
}

func TestASecondHostWorksInMemory(t *testing.T) {
	dir := t.TempDir()
	one := newHost(t, dir, builtinEmbedder(t), map[string][]string{"shop": shop})
	one.settle()
	two := newHost(t, dir, builtinEmbedder(t), map[string][]string{"shop": nil})
	st := two.settle()
	if st.Storage != StorageMemory || !strings.Contains(st.StorageTrouble, "another process") || strings.Contains(st.StorageTrouble, "must end") || st.Embedded != 3 {
		t.Errorf("the second host: %+v", st)
	}
	if got := two.best("picture of the web page"); got != "take_screenshot" {
		t.Errorf("in memory, found %q", got)
	}
	figures, err := ReadFigures(filepath.Join(dir, "catalog"))
	if err != nil || figures == nil || len(figures.Models) != 1 || figures.Models[0].Vectors != 3+len(backgroundTools) {
		t.Errorf("the first host's figures: %+v, %v", figures, err)
	}
	one.close()
	two.until("has the store", func(s Status) bool { return s.Storage == StorageDisk && s.StorageTrouble == "" })
}

func TestWhatWasEmbeddedBeforeTheStoreIsKept(t *testing.T) {
	dir := t.TempDir()
	held, err := store.Open(filepath.Join(dir, "catalog"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, dir, builtinEmbedder(t), map[string][]string{"shop": shop})
	h.until("in memory", func(s Status) bool { h.settle(); return s.Storage == StorageMemory && s.Embedded == 3 })
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	h.until("has the store", func(s Status) bool { return s.Storage == StorageDisk })
	h.until("wrote its figures", func(Status) bool {
		f, err := ReadFigures(filepath.Join(dir, "catalog"))
		return err == nil && f != nil && len(f.Models) == 1 && f.Models[0].Vectors == 3+len(backgroundTools)
	})
}

func TestABrokenEmbedderLeavesSearchWorking(t *testing.T) {
	for _, reason := range []embed.Reason{embed.Unauthorized, embed.RateLimited, embed.BadAnswer} {
		t.Run(string(reason), func(t *testing.T) {
			e := builtinEmbedder(t)
			e.failWith(&embed.Error{Reason: reason, Message: "the key was refused"})
			h := newHost(t, t.TempDir(), e, map[string][]string{"shop": shop})
			st := h.settle()
			if st.Trouble == nil || st.Trouble.Reason != reason || !st.Settled || st.Embedded != 0 {
				t.Errorf("status: %+v", st)
			}
			matches, note, _ := NewSearcher(h.view).Search(t.Context(), Hybrid{}, Query{Text: "screenshot"})
			if len(matches) == 0 || matches[0].Entry.Tool.Name != "take_screenshot" || !strings.Contains(note, "the key was refused") {
				t.Errorf("found %s, note %q", found(matches), note)
			}
			good := builtinEmbedder(t)
			h.sys.Send(h.pid, &UseEmbedder{Embedder: good})
			if st := h.settle(); st.Embedded != 3 || st.Trouble != nil {
				t.Errorf("with another embedder: %+v", st)
			}
			h.sys.Send(h.pid, &UseEmbedder{})
			if st := h.settle(); st.Model != "" || !st.Settled {
				t.Errorf("without an embedder: %+v", st)
			}
		})
	}
}

func TestDisabledToolsAreNotEmbedded(t *testing.T) {
	e := builtinEmbedder(t)
	h := newHost(t, t.TempDir(), e, map[string][]string{"shop": shop})
	h.settle()
	no := false
	rules, err := CompileRules([]Rule{{Patterns: []string{"send*"}, Enabled: &no}})
	if err != nil {
		t.Fatal(err)
	}
	h.sys.Send(h.pid, &SetRules{Rules: rules})
	h.sys.Send(h.pid, &messages.Listing{Server: "shop", Pages: [][]byte{[]byte(`{"tools":[` + definition("send_fax", "Send a fax.", "{}") + `]}`)}, SpecHash: "h"})
	h.until("nothing wanted", func(s Status) bool { h.settle(); return s.Wanted == 0 })
	if got := e.embedded(t); got != 3 {
		t.Errorf("%d texts are embedded, want 3", got)
	}
}

func TestServersTakeTurns(t *testing.T) {
	named := func(names ...string) (list []*passage) {
		for _, n := range names {
			list = append(list, &passage{around: &around{about: n}})
		}
		return list
	}
	var got []string
	for p := range inTurn([][]*passage{named("a1", "a2", "a3"), named("b1"), named("c1", "c2")}) {
		got = append(got, p.about)
	}
	if order := strings.Join(got, " "); order != "a1 b1 c1 a2 c2 a3" {
		t.Errorf("the order is %s", order)
	}
	for range inTurn(nil) {
		t.Error("nothing waits, and something has its turn")
	}
}

// few are a handful of tools, as many people have no more.
var few = []string{
	definition("create_event", "Create an event in the calendar with title, start and end.", "{}"),
	definition("create_issue", "Create an issue in a GitHub repository.", "{}"),
	definition("take_screenshot", "Take a screenshot of the current page.", "{}"),
	definition("run_sql", "Execute an SQL statement and return rows.", "{}"),
	definition("send_mail", "Send an email.", "{}"),
}

// TestFewToolsAreFoundByMeaning searches a catalog that is too small to say by
// itself how alike is nothing special.
func TestFewToolsAreFoundByMeaning(t *testing.T) {
	h := newHost(t, t.TempDir(), builtinEmbedder(t), map[string][]string{"few": few})
	h.settle()
	for query, want := range map[string]string{
		"schedule a meeting with Bob": "create_event", "open a bug report": "create_issue",
		"capture an image of the website": "take_screenshot", "write to my boss": "send_mail",
	} {
		matches, note, _ := NewSearcher(h.view).Search(t.Context(), Hybrid{}, Query{Text: query})
		if len(matches) == 0 || matches[0].Entry.Tool.Name != want || note != "" {
			t.Errorf("%q found %s, note %q; want %s first", query, found(matches), note, want)
			continue
		}
		if matches[0].Score >= 0.5 {
			t.Errorf("%q: score %.2f of a tool that has no word of it", query, matches[0].Score)
		}
	}
}

// Who goes away while the embedder is asked leaves it to all others.
func TestACancelledSearchLeavesTheEmbedderToOthers(t *testing.T) {
	h := newHost(t, t.TempDir(), builtinEmbedder(t), map[string][]string{"shop": shop})
	h.settle()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, note, _ := NewSearcher(h.view).Search(gone, Hybrid{}, Query{Text: "charge the customer"}); note == "" {
		t.Error("a cancelled search was embedded")
	}
	if got := h.best("picture of the web page"); got != "take_screenshot" {
		t.Errorf("the next search found %q", got)
	}
}

// A model may be installed, and a key allowed again, while the host runs.
func TestAnEmbedderThatWasMendedIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := builtinEmbedder(t)
		e.failWith(&embed.Error{Reason: embed.Misconfigured, Message: "there is no model"})
		h := newHost(t, "", e, map[string][]string{"shop": shop})
		defer h.close()
		if st := h.settle(); st.Trouble == nil || st.Embedded != 0 {
			t.Errorf("without its model: %+v", st)
		}
		search := func() string {
			_, note, _ := NewSearcher(h.view).Search(t.Context(), Hybrid{}, Query{Text: "charge the customer"})
			return note
		}
		if note := search(); !strings.Contains(note, "there is no model") {
			t.Errorf("without its model a search says %q", note)
		}
		e.failWith(nil)
		<-time.After(lastEmbedRetry / 2) // of the time that the test has for itself
		synctest.Wait()
		if note := search(); !strings.Contains(note, "there is no model") || h.view.Status().Trouble == nil {
			t.Errorf("it was asked again at once: %q", note)
		}
		<-time.After(lastEmbedRetry)
		synctest.Wait()
		if st := h.view.Status(); st.Trouble != nil || st.Embedded != 3 {
			t.Errorf("with its model: %+v", st)
		}
		if note := search(); note != "" {
			t.Errorf("with its model a search says %q", note)
		}
	})
}

// A stuck embedder answers nothing before who asks gives up.
type stuck struct{ asked chan struct{} }

func (*stuck) Model() string { return "stuck" }
func (*stuck) Batch() int    { return 1 }
func (*stuck) Close() error  { return nil }

func (s *stuck) Embed(ctx context.Context, _ embed.Kind, _ []string) ([][]float32, error) {
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A cloud may take minutes for a batch, which nobody needs once there is another embedder.
func TestAnEmbedderThatIsReplacedHoldsUpNobody(t *testing.T) {
	slow := &stuck{asked: make(chan struct{})}
	h := newHost(t, t.TempDir(), slow, map[string][]string{"shop": shop})
	h.sys.Send(h.pid, &Begin{})
	h.wait(slow.asked)
	h.sys.Send(h.pid, &UseEmbedder{Embedder: builtinEmbedder(t)})
	if st := h.settle(); st.Embedded != 3 || st.Trouble != nil {
		t.Errorf("with another embedder: %+v", st)
	}
}

// A store that breaks down while it is read is read again once it is whole.
func TestVectorsOfABrokenStoreAreSoughtAgain(t *testing.T) {
	dir := t.TempDir()
	open := func() *store.Store {
		t.Helper()
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := open()
	p, e := newBackground().passages[0], share(&stuck{})
	e.model = "m"
	if err := st.PutVectors("m", []store.Vector{{Hash: p.key(), Values: []float32{1, 0, 0, 0}}}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	broken := &embedded{embedder: e}
	if broken.find([][]*passage{{p}}, st) || broken.storeErr == nil {
		t.Errorf("a closed store was read: %+v", broken)
	}
	st = open()
	defer func() { _ = st.Close() }()
	whole := &embedded{embedder: e}
	if !whole.find([][]*passage{{p}}, st) || whole.storeErr != nil {
		t.Errorf("the vector was not found: %+v", whole)
	}
	if again := (&embedded{embedder: e}); again.find([][]*passage{{p}}, st) {
		t.Error("what was found is looked for once more")
	}
}

// A forgetful embedder has stopped to embed documents.
type forgetful struct{ *counting }

func (f forgetful) Embed(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	if kind == embed.Document {
		return nil, &embed.Error{Reason: embed.RateLimited, Message: "no more documents today", RetryAfter: time.Hour}
	}
	return f.counting.Embed(ctx, kind, texts)
}

// A query that has its vector is of no use where the tools have none, which is said.
func TestASearchSaysThatToolsCouldNotBeEmbedded(t *testing.T) {
	h := newHost(t, t.TempDir(), forgetful{builtinEmbedder(t)}, map[string][]string{"shop": shop})
	h.settle()
	matches, note, _ := NewSearcher(h.view).Search(t.Context(), Hybrid{}, Query{Text: "screenshot"})
	if len(matches) == 0 || matches[0].Entry.Tool.Name != "take_screenshot" || !strings.Contains(note, "no more documents today") {
		t.Errorf("found %s, note %q", found(matches), note)
	}
}
