package metamcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/testkit"
)

// reloading is an engine with a configuration file that its test writes.
type reloading struct {
	t   *testing.T
	e   *Engine
	src config.Sources
}

func openReloading(t *testing.T, text string) *reloading {
	t.Helper()
	dir := t.TempDir()
	r := &reloading{t: t, src: config.Sources{Files: []string{filepath.Join(dir, "mcp.json")}, Home: dir, Cwd: dir, Environ: []string{}}}
	r.write(text)
	e := opened(t, Options{Sources: r.src, Log: slog.New(slog.DiscardHandler), NoWatchdog: true})
	r.e = e
	return r
}

func (r *reloading) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.src.Files[0], []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reloading) reload() {
	r.t.Helper()
	if err := r.e.Reload(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// A configuration that was read earlier and comes later undoes nothing.
func TestAnOlderConfigurationIsNotTakenOver(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{}}`)
	r.write(`{"mcpServers":{"s1":{"command":"none","disabled":true}}}`)
	read := func() *config.Config { // as the watcher does it
		t.Helper()
		cfg, err := config.Reload(r.src, r.e.Config())
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	is := func(when string, names ...string) {
		t.Helper()
		servers := r.e.ListServers()
		ok := len(servers) == len(names) && len(r.e.Config().Servers) == len(names)
		for _, name := range names {
			ok = ok && r.e.Config().Server(name) != nil
		}
		if !ok {
			t.Errorf("%s there are %d servers, %+v; want %q", when, len(servers), servers, names)
		}
	}
	older := read()
	r.write(`{"mcpServers":{"s1":{"command":"none","disabled":true},"s2":{"command":"none","disabled":true}}}`)
	r.reload()
	r.e.changed(older, nil)
	is("after the older one", "s1", "s2")

	older = read()
	r.reload()
	r.write(`{"mcpServers":{"s3":{"command":"none","disabled":true}}}`)
	r.e.changed(older, nil)
	is("after an older one in whose place the files were read again", "s3")

	r.write(`{"mcpServers":{"s4":{"command":"none","disabled":true}}}`)
	r.e.changed(read(), nil)
	is("after a newer one", "s4")
}

// A file that is away for a moment takes no server with it.
func TestReloadOfAFileThatIsGoneChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, ".metamcp", "mcp.json")
	src := config.Sources{Home: dir, Cwd: t.TempDir(), Environ: []string{}}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"s1":{"command":"none","disabled":true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: src, Log: slog.New(slog.DiscardHandler), NoWatchdog: true})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := e.Reload(t.Context()); err == nil || e.Config().Server("s1") == nil {
		t.Errorf("the error is %v, the servers are %+v", err, e.ListServers())
	}
}

// Whoever is sent to an entry that did not change finds it, wherever it has moved.
func TestEntryThatMovedIsNamedWhereItStands(t *testing.T) {
	t.Parallel()
	const entry = `{"mcpServers":{"off":{"command":"none","disabled":true}}}`
	r := openReloading(t, entry)
	ways := map[string]func() error{
		"called": func() error {
			_, err := r.e.Execute(t.Context(), "off", "any", json.RawMessage(`{}`), ExecuteOptions{})
			return err
		},
		"listed":    func() error { _, err := r.e.ListTools(t.Context(), "off", false); return err },
		"contacted": func() error { return r.e.contact(t.Context(), "off", true) },
	}
	for n, blank := range []string{"", "\n\n", "\n"} {
		r.write(blank + entry)
		r.reload()
		want := fmt.Sprintf("%s:%d)", r.src.Files[0], len(blank)+1)
		for name, way := range ways {
			if err := way(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d, %s: %v, want %s", n, name, err, want)
			}
		}
	}
}

// A server whose entry is being taken over is there: whoever asks for its tools meanwhile
// gets those that it lists then.
func TestEntryThatIsTakenOverIsThere(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	relisted := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveRPC(w, r, func(method string) string {
			switch method {
			case "initialize":
				return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`
			case "tools/list":
				if asked.Add(1) == 2 { // by the client of the old entry, which is given up
					close(relisted)
					<-r.Context().Done()
				}
				return `"result":{"tools":[{"name":"one","inputSchema":{"type":"object"}}]}`
			}
			return noSuchMethod
		})
	}))
	t.Cleanup(web.Close)
	other := &refusing{tools: `{"name":"two","inputSchema":{"type":"object"}}`}
	beside := httptest.NewServer(other)
	t.Cleanup(beside.Close)
	entries := func(more string) string {
		return `{"mcpServers":{"other":{"url":"` + beside.URL + `"},"x":{"url":"` + web.URL + `"` + more + `}}}`
	}
	r := openReloading(t, entries(""))
	for _, server := range []string{"other", "x"} { // "other" is idle for longer
		if err := r.e.contact(t.Context(), server, false); err != nil {
			t.Fatal(err)
		}
	}
	// The pool is held up, so that the catalog hears of the change before the server does.
	held, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	var holding, reloading, listing sync.WaitGroup
	holding.Go(func() {
		r.e.core.Squeeze(func(int) {
			close(held)
			<-goOn
		})
	})
	<-held
	r.write(entries(`,"headers":{"X-More":"1"}`))
	reloading.Go(func() {
		if err := r.e.Reload(t.Context()); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, time.Minute, func() error {
		if r.e.core.Catalog().Server("x") != nil {
			return errors.New("the catalog has not heard of the change")
		}
		return nil
	})
	listing.Go(func() {
		tools, err := r.e.ListTools(t.Context(), "x", false)
		if err != nil || len(tools) != 1 {
			t.Errorf("%+v, %v", tools, err)
		}
	})
	answered := make(chan struct{})
	go func() {
		listing.Wait()
		close(answered)
	}()
	select {
	case <-relisted:
	case <-answered:
	}
	release()
	holding.Wait()
	reloading.Wait()
	listing.Wait()
}

// What is known of servers does not outlive them.
func TestServersThatComeAndGoLeaveNoTimes(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{"stays":{"command":"none","disabled":true}}}`)
	call := func(server string) {
		t.Helper()
		if _, err := r.e.Execute(t.Context(), server, "any", json.RawMessage(`{}`), ExecuteOptions{}); err == nil {
			t.Fatal("a disabled server took a call")
		}
	}
	call("stays")
	last := ""
	for i := range 20 {
		last = fmt.Sprintf("renamed%d", i)
		r.write(fmt.Sprintf(`{"mcpServers":{"stays":{"command":"none","disabled":true},%q:{"command":"none","disabled":true}}}`, last))
		r.reload()
		call(last)
	}
	r.e.times.by.Range(func(server, _ any) bool {
		if server != "stays" && server != last {
			t.Errorf("there are times of %q", server)
		}
		return true
	})
	for _, server := range []string{"stays", last} {
		if n := r.e.times.of(server).Total; n != 1 {
			t.Errorf("%d calls of %s are counted, want 1", n, server)
		}
	}
}

// Logins at servers go with them; what was secret of them stays so.
func TestServersThatComeAndGoLeaveNoLogins(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{}}`)
	token := func(server string) string { return "t0ken-of-" + server + "-a81" }
	last := ""
	for i := range 20 {
		last = fmt.Sprintf("renamed%d", i)
		r.write(fmt.Sprintf(`{"mcpServers":{%q:{"url":"http://127.0.0.1:1/mcp"}}}`, last))
		r.reload()
		if r.e.authorizer(r.e.Config().Server(last)) == nil {
			t.Fatal("there is no client")
		}
		r.e.learnTokens(last, []string{token(last)})
	}
	r.e.learnEntered("A_KEY", "entered-0n-a-page")
	r.e.learnTokens("renamed3", []string{"l8ter-than-its-server"}) // by a call that was still in flight
	r.reload()
	r.e.tokens.mu.Lock()
	for server := range r.e.tokens.byServer {
		if server != last {
			t.Errorf("there are tokens of %q", server)
		}
	}
	r.e.tokens.mu.Unlock()
	for _, secret := range []string{token(last), token("renamed0"), "l8ter-than-its-server", "entered-0n-a-page"} {
		if got := string(r.e.secrets.Load().Bytes([]byte("say " + secret))); strings.Contains(got, secret) {
			t.Errorf("%q was not taken out", got)
		}
	}
}

// A token that is new is known from the moment on in which it is told, and the secrets
// of the configuration are not gone through for it. Old ones are forgotten some time.
func TestNewTokensLeaveTheScrubberOfTheConfiguration(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{"a":{"command":"none","disabled":true,"env":{"SOME_KEY":"c0nfigured-key"}}}}`)
	clean := func(secret string) bool {
		return !strings.Contains(string(r.e.secrets.Load().Bytes([]byte("say "+secret))), secret)
	}
	base := r.e.tokens.base
	token := func(n int) string { return fmt.Sprintf("t0ken-%d-of-many", n) }
	r.e.learnTokens("other", []string{"an0ther-server's"})
	for n := range maxStale + 10 {
		r.e.learnTokens("a", []string{token(n)})
		if !clean(token(n)) {
			t.Fatalf("token %d is not known", n)
		}
		if n > 0 && n < 10 && !clean(token(n-1)) {
			t.Errorf("token %d was forgotten at once", n-1)
		}
	}
	r.e.learnEntered("A_KEY", "entered-0n-a-page")
	for _, secret := range []string{"c0nfigured-key", "an0ther-server's", "entered-0n-a-page"} {
		if !clean(secret) {
			t.Errorf("%s is not known any more", secret)
		}
	}
	if clean(token(0)) {
		t.Error("the oldest token is still looked for")
	}
	if r.e.tokens.base != base {
		t.Error("what the configuration has was gone through again")
	}
	r.reload()
	if r.e.tokens.base == base || !clean("an0ther-server's") || !clean(token(maxStale+9)) {
		t.Error("the reload was not heard of, or lost what was known")
	}
}
