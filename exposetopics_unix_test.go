//go:build unix

package metamcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// updates counts what a client hears of changed resources.
type updates struct{ heard chan string }

func (u *updates) Updated(uri string, _ json.RawMessage) { u.heard <- uri }

// A subscription that lives ends with its session, also where its client asked for
// it once more while its server was away, and was refused.
func TestRefusedSubscriptionEndsNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flags := filepath.Join(dir, "flags")
	behaves := func(with string) {
		t.Helper()
		if err := os.WriteFile(flags, []byte(with), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	behaves("--content")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mcp.json")
	cfg := fmt.Sprintf(`{"mcpServers":{"a":{"command":"/bin/sh","args":["-c","exec \"$0\" --name a --era legacy $(cat \"$1\")",%q,%q],"env":{"METAMCP_TEST_CHILD":"1"}}}}`, self, flags)
	if err := os.WriteFile(file, []byte(cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	client := func() *passed {
		t.Helper()
		session, err := e.core.OpenSession(nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(session.Close)
		return e.expose.passedFor(session)
	}
	const own = "demo://a/static"
	uri := ownURI("a", own)
	subscribe := func(p *passed, to front.Updates) error {
		done := make(chan error, 1)
		p.begin(front.NextCall(), uri, actors.Topic{Server: "a", URI: own}, to, func(failure *messages.Answer) {
			if failure != nil {
				done <- errors.New("refused")
				return
			}
			done <- nil
		})
		return <-done
	}
	crash := func() {
		t.Helper()
		if _, err := e.Execute(t.Context(), "a", "crash", nil, ExecuteOptions{}); err == nil {
			t.Fatal("a server that crashes has answered")
		}
	}

	first, second := &updates{make(chan string, 64)}, &updates{make(chan string, 64)}
	p := client()
	if err := subscribe(p, first); err != nil {
		t.Fatal(err)
	}
	behaves("")
	crash()
	testkit.Eventually(t, time.Minute, func() error {
		if subscribe(p, first) == nil {
			return errors.New("the server's end was not noticed yet")
		}
		return nil
	})
	p.close()
	behaves("--content")
	crash()
	q := client()
	defer q.close()
	testkit.Eventually(t, time.Minute, func() error { return subscribe(q, second) })
	for range 2 { // who is subscribed has heard of the first when one hears of the second
		testkit.Eventually(t, time.Minute, func() error {
			_, err := e.Execute(t.Context(), "a", "touch", []byte(`{"uri":"`+own+`"}`), ExecuteOptions{})
			return err
		})
		select {
		case <-second.heard:
		case <-time.After(time.Minute):
			t.Fatal("a subscriber does not hear of a change")
		}
	}
	if len(first.heard) > 0 {
		t.Error("a subscription outlives its session")
	}
}
