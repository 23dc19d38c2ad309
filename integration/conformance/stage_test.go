package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// stageVariable makes this test binary the client that the suite starts: it holds
// the address of the test's stage.
const stageVariable = "METAMCP_TEST_CONFORMANCE_STAGE"

// atOnce is how many scenarios have a metamcp at the same time; the suite begins
// them all.
const atOnce = 3

// turnWithin is for one scenario, once it has its turn.
const turnWithin = 3 * time.Minute

// turn is what a client is told that the suite starts, and tells the stage.
type turn struct{ Scenario, Context, URL string }

// takeTurn is the whole client: what there is to do the test does, which knows
// more. It ends when that is done. The judge is the suite, from what its server
// was sent.
func takeTurn(address string) int {
	body, err := json.Marshal(turn{os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Getenv("MCP_CONFORMANCE_CONTEXT"), os.Args[len(os.Args)-1]})
	if err == nil {
		err = send(context.Background(), http.MethodPost, address, bytes.NewReader(body))
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// send makes a request that has to be answered with status 200.
func send(ctx context.Context, method, address string, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, method, address, body) //nolint:gosec // It is an address of this machine, in a test.
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // As above.
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, resp.Status)
	}
	return nil
}

// stage is where metamcp plays the client of each scenario.
type stage struct {
	address   string
	metamcp   string
	dir       string
	scenarios map[string]scenario
	places    chan struct{}

	mu   sync.Mutex
	logs map[string]string // by scenario
}

func newStage(t *testing.T, metamcp string, scenarios []scenario) *stage {
	t.Helper()
	s := &stage{metamcp: metamcp, dir: t.TempDir(), scenarios: map[string]scenario{}, places: make(chan struct{}, atOnce), logs: map[string]string{}}
	for _, sc := range scenarios {
		s.scenarios[sc.name] = sc
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.address = server.URL
	return s
}

func (s *stage) said(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[name]
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var tn turn
	if err := json.NewDecoder(r.Body).Decode(&tn); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sc, ours := s.scenarios[tn.Scenario]
	if !ours {
		return
	}
	s.places <- struct{}{}
	defer func() { <-s.places }()
	ctx, cancel := context.WithTimeout(r.Context(), turnWithin)
	defer cancel()
	var log testkit.Tail
	if err := s.play(ctx, sc, tn, &log); err != nil {
		_, _ = fmt.Fprintln(&log, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[sc.name] = log.String()
}

// play starts one metamcp for each call.
func (s *stage) play(ctx context.Context, sc scenario, tn turn, log io.Writer) error {
	dir := filepath.Join(s.dir, strings.ReplaceAll(sc.name, "/", "-"))
	entry := map[string]any{"url": tn.URL}
	if o := oauthFor(tn); o != nil {
		entry["oauth"] = o
	}
	cfg, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"suite": entry}})
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "mcp.json"), cfg, 0o600); err != nil {
		return err
	}
	calls, err := callsFor(sc, tn)
	if err != nil {
		return err
	}
	for _, c := range calls {
		const most = 4 // logins of one call, more than it may want
		for range most {
			out, err := s.command(ctx, dir, "call", "suite", c.tool, c.args).CombinedOutput()
			_, _ = fmt.Fprintf(log, "%s %s: %v\n%s\n", c.tool, c.args, err, out)
			if !bytes.Contains(out, []byte(" auth login suite")) {
				break
			}
			if err := logIn(ctx, s.command(ctx, dir, "auth", "login", "suite", "--no-browser", "--timeout", "60s"), log); err != nil {
				_, _ = fmt.Fprintln(log, "no login:", err)
				break
			}
		}
	}
	return ctx.Err()
}

// command is a metamcp of the scenario that has this folder.
func (s *stage) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.metamcp, append(args, "--config", filepath.Join(dir, "mcp.json"), "--state-dir", filepath.Join(dir, "state"))...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR=") // tokens belong into no keyring here
	return cmd
}

// callsFor are the scenario's own, or those that the suite wants.
func callsFor(sc scenario, tn turn) ([]call, error) {
	if len(sc.calls) > 0 {
		return sc.calls, nil
	}
	var wanted struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.Unmarshal([]byte(tn.Context), &wanted); err != nil {
		return nil, err
	}
	var calls []call
	for _, w := range wanted.ToolCalls {
		calls = append(calls, call{w.Name, string(w.Arguments)})
	}
	return calls, nil
}
