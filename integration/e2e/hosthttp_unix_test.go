//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// httpOf is where the host of a place serves over HTTP, as its status says.
func (p *place) httpOf() string {
	p.t.Helper()
	text, err := p.shell("host", "status", "--json")
	if err != nil {
		p.t.Fatal(err)
	}
	var st struct{ HTTP string }
	if err := json.Unmarshal(text, &st); err != nil || st.HTTP == "" {
		p.t.Fatalf("the host's status has no URL: %v, %s", err, text)
	}
	return st.HTTP
}

// modernEcho calls a server over HTTP without a session.
func modernEcho(ctx context.Context, over *http.Client, url, server, text string) error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":%q,"tool":"echo","args":{"text":%q}},%s}}`, server, text, strings.Replace(modernMeta, "{", `{"io.modelcontextprotocol/clientInfo":{"name":"modern","version":"1"},`, 1))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.GetBody = nil // the client must not mend a lost request by itself
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "mcp_call",
	} {
		r.Header.Set(k, v)
	}
	res, err := over.Do(r)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // it was read
	if err == nil && (res.StatusCode != http.StatusOK || !bytes.Contains(answer, fmt.Appendf(nil, `"text":%q`, text))) {
		err = fmt.Errorf("%s is answered with %d, %s", text, res.StatusCode, answer)
	}
	return err
}

// webClient has connections of its own.
func webClient(t testing.TB, keepAlive bool) *http.Client {
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.DisableKeepAlives = !keepAlive
	t.Cleanup(own.CloseIdleConnections)
	return &http.Client{Transport: own, Timeout: patience}
}

// legacyHello begins a session and returns its headers.
func legacyHello(t testing.TB, url string) map[string]string {
	t.Helper()
	res, body := post(t, url, helloHTTP, nil)
	id := res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("initialize: %d, %s", res.StatusCode, body)
	}
	return map[string]string{"Mcp-Session-Id": id}
}

const legacyEcho = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"d0","tool":"echo","args":{"text":"legacy"}}}}`

// Clients that attach and clients over HTTP share the host's servers: one
// process for each.
func TestSharedHostOverHTTP(t *testing.T) {
	p := newPlace(t, demos(t, 3), map[string]any{"http": map[string]any{"address": "127.0.0.1:0"}})
	h := p.host()
	url := p.httpOf()
	if out, err := p.shell("status"); err != nil || !strings.Contains(string(out), url) {
		t.Errorf("status does not show %s: %v\n%s", url, err, out)
	}
	var all sync.WaitGroup
	for i := range 3 {
		attached, session, over := p.client(), legacyHello(t, url), webClient(t, true)
		all.Go(func() {
			for n := range 20 {
				server := fmt.Sprintf("d%d", n%3)
				attached.echoes(server, fmt.Sprintf("stdio %d call %d", i, n))
				if err := modernEcho(t.Context(), over, url, server, fmt.Sprintf("modern %d call %d", i, n)); err != nil {
					t.Error(err)
				}
				if res, body := post(t, url, legacyEcho, session); res.StatusCode != http.StatusOK || !strings.Contains(body, `"text":"legacy"`) {
					t.Errorf("legacy %d call %d: %d, %s", i, n, res.StatusCode, body)
				}
			}
		})
	}
	all.Wait()
	if procs := alive(t, p.mark); len(procs) != 3 {
		t.Errorf("three servers have %d processes: %v", len(procs), procs)
	}
	st, err := p.status()
	if err != nil {
		t.Fatal(err)
	}
	web := 0
	for _, c := range st.Clients {
		if c.PID == 0 {
			web++
		}
		if c.Name == "" {
			t.Errorf("a client has no name: %+v", c)
		}
	}
	// Clients without sessions, and of one name, are one.
	if web != 4 || len(st.Clients) != 7 {
		t.Errorf("%d clients, %d of them over HTTP: %+v", len(st.Clients), web, st.Clients)
	}
	h.Signal(t, syscall.SIGTERM)
	if code := h.Wait(t, patience); code != 0 {
		t.Errorf("the host ended with status %d: %s", code, h.Stderr)
	}
	testkit.AwaitMarkedGone(t, patience, p.mark)
}

// A restart refuses no client over HTTP: not one that opens a connection, not
// one that has one. The address stays. Sessions are told to begin anew.
func TestSharedHostOverHTTPIsReplaced(t *testing.T) {
	p := newPlace(t, demos(t, 2), map[string]any{"http": map[string]any{"maxRequestsPerSecond": 100_000}})
	out, err := p.shell("host", "start", "--http", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.shell("host", "stop", "--now") })
	url := p.httpOf()
	if !strings.Contains(string(out), url) {
		t.Errorf("the start of a host at %s says %s", url, out)
	}
	stop := make(chan struct{})
	var answered [4]atomic.Int64
	var all sync.WaitGroup
	for i := range answered {
		over := webClient(t, i%2 == 0)
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := modernEcho(t.Context(), over, url, fmt.Sprintf("d%d", i%2), fmt.Sprintf("client %d call %d", i, n)); err != nil {
					t.Error(err)
					return
				}
				answered[i].Add(1)
			}
		})
	}
	flows := func() {
		t.Helper()
		for i := range answered {
			from := answered[i].Load()
			testkit.Eventually(t, patience, func() error {
				if n := answered[i].Load(); n < from+3 {
					return fmt.Errorf("client %d has %d answers, %d of them before", i, n, from)
				}
				return nil
			})
		}
	}
	attached := p.client()
	for range 3 {
		flows()
		session := legacyHello(t, url)
		before, err := p.status()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := p.shell("host", "restart"); err != nil {
			t.Fatalf("restart: %v, %s", err, out)
		}
		if now := p.httpOf(); now != url {
			t.Errorf("the new host serves at %s, the old one did at %s", now, url)
		}
		testkit.Eventually(t, patience, func() error {
			if syscall.Kill(before.PID, 0) == nil {
				return fmt.Errorf("the host before (%d) has not ended", before.PID)
			}
			return nil
		})
		flows()
		if res, body := post(t, url, legacyEcho, session); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "begin a new one with initialize") {
			t.Errorf("a session of the host before is answered with %d, %s", res.StatusCode, body)
		}
		if res, body := post(t, url, legacyEcho, legacyHello(t, url)); res.StatusCode != http.StatusOK || !strings.Contains(body, `"text":"legacy"`) {
			t.Errorf("a session begun anew: %d, %s", res.StatusCode, body)
		}
		attached.echoes("d1", "attached")
	}
	close(stop)
	all.Wait()
	if out, err := p.shell("host", "restart", "--http=none"); err != nil {
		t.Fatalf("restart: %v, %s", err, out)
	}
	if out, err := p.shell("host", "status", "--json"); err != nil || strings.Contains(string(out), `"http"`) {
		t.Errorf("without HTTP: %v, %s", err, out)
	}
	attached.echoes("d1", "still attached")
}

// A host that cannot have its address does not start, and leaves the one before
// alone. One that runs is not hidden by its own address.
func TestHostWithoutItsAddress(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	if _, err := p.shell("host", "start", "--http", taken.Addr().String()); err == nil || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("at an address that is taken: %v", err)
	}
	for _, wrong := range [][]string{{"host", "--http", "8090"}, {"host", "start", "--http", "8090"}, {"host", "restart", "--web", "8090"}} {
		const usage = 2
		var exit *exec.ExitError
		if _, err := p.shell(wrong...); !errors.As(err, &exit) || exit.ExitCode() != usage || !strings.Contains(err.Error(), wrong[len(wrong)-2]+": ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := p.shell("host", "--http", "0.0.0.0:0"); err == nil || !strings.Contains(err.Error(), "metamcp token add") {
		t.Errorf("for other machines without tokens: %v", err)
	}
	if out, err := p.shell("host", "install", "--dry-run", "--http", ":8090"); err != nil || !strings.Contains(string(out), "--http=:8090") {
		t.Errorf("the unit has no --http: %v\n%s", err, out)
	}
	h := p.host("--http", ":0")
	c, url := p.client(), p.httpOf()
	next := p.run("host", "--replace", "--http", taken.Addr().String())
	if code := next.Wait(t, patience); code != 1 {
		t.Errorf("a replacement without its address ends with status %d: %s", code, next.Stderr)
	}
	second := p.run("host", "--http", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
	if code := second.Wait(t, patience); code != 1 || !strings.Contains(second.Stderr.String(), "a host runs already") {
		t.Errorf("a second host ends with status %d and %s", code, second.Stderr)
	}
	c.echoes("d0", "still there")
	if err := modernEcho(t.Context(), webClient(t, true), url, "d0", "still there, too"); err != nil {
		t.Error(err)
	}
	// Another address: the new host opens it before it takes the place.
	next = p.run("host", "--replace", "--http", ":0", "--http-address", ":0")
	p.serves(next)
	h.Wait(t, patience)
	if now := p.httpOf(); now != url {
		t.Errorf("any port will do, and the host's is %s, not %s", now, url)
	}
}

// What is in flight over HTTP when a host is replaced is answered by the old one.
func TestCallOverHTTPDuringRestart(t *testing.T) {
	p := newPlace(t, servers{"d0": testkit.DemoServer(t)}, map[string]any{"drainTimeoutMs": 60_000})
	h := p.host("--http", ":0")
	url := p.httpOf()
	answer := make(chan string, 1)
	session := legacyHello(t, url)
	go func() {
		_, body := post(t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"d0","tool":"slow","args":{"ms":3000,"steps":1}}}}`, session)
		answer <- body
	}()
	testkit.Eventually(t, patience, func() error {
		st, err := p.status()
		if err == nil && st.Calls.InFlight != 1 {
			err = fmt.Errorf("%d calls are in flight", st.Calls.InFlight)
		}
		return err
	})
	next := p.run("host", "--replace", "--http", ":0")
	p.serves(next)
	if err := modernEcho(t.Context(), webClient(t, true), url, "d0", "the new host answers"); err != nil {
		t.Error(err)
	}
	if body := <-answer; !strings.Contains(body, "1 steps") && !strings.Contains(body, "1 step") {
		t.Errorf("the call in flight got %s", body)
	}
	if code := h.Wait(t, patience); code != 0 {
		t.Errorf("the host before ended with status %d: %s", code, h.Stderr)
	}
}
