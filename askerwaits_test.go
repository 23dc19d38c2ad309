package metamcp

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// The end of one round of a call takes nothing from the next, which began before.
func TestACancelReachesTheNextRound(t *testing.T) {
	s := &asker{waits: map[uint64]*round{}}
	s.ctx, s.gone = context.WithCancel(t.Context())
	defer s.work.Wait()
	defer s.gone()
	const call = 7
	first, next := make(chan context.Context, 1), make(chan context.Context, 1)
	s.begin(call, func(ctx context.Context) {
		first <- ctx
		s.begin(call, func(ctx context.Context) {
			next <- ctx
			<-ctx.Done()
		})
	})
	over := func(ctx context.Context, what string) {
		t.Helper()
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal(what)
		}
	}
	over(<-first, "the first round does not end")
	ctx := <-next
	s.cancel(call)
	over(ctx, "the next round does not hear that its call was cancelled")
	s.work.Wait()
	if len(s.waits) != 0 {
		t.Errorf("there is left %v", s.waits)
	}
}

// A call may fail for what somebody mends just before the failure arrives, or is about
// to have mended then: nothing is left to ask for, and it is made again, once.
func TestWhatWasMendedMeanwhileIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"docs": {"url": "https://docs.example/mcp"}, "off": {"url": "https://docs.example/mcp", "disabled": true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Open(t.Context(), Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s := &asker{e: e, waits: map[uint64]*round{}}
	s.ctx, s.gone = context.WithCancel(t.Context())
	defer s.work.Wait()
	defer s.gone()
	for _, tt := range []struct {
		name    string
		subject string
		fails   *Error
		again   bool
	}{
		{"a login", loginAt("docs"), &Error{Server: "docs", Class: messages.ClassAuth}, true},
		{"secrets", secretsOf("docs"), &Error{Server: "docs", Code: messages.CodeConfiguration}, true},
		{"of another server", loginAt("other"), &Error{Server: "docs", Class: messages.ClassAuth}, false},
		{"of a server that is off", loginAt("off"), &Error{Server: "off", Class: messages.ClassAuth}, false},
		{"something else", loginAt("docs"), &Error{Server: "docs", Class: messages.ClassOffline}, false},
	} {
		for _, atWork := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, still at work: %v", tt.name, atWork), func(t *testing.T) {
				again, answered := make(chan messages.ReplyPort, 1), make(answers, 1)
				w := &curable{call: 7, next: answered, again: func(reply messages.ReplyPort) { again <- reply }}
				s.watch(w)
				e.cures.mended = map[string]time.Time{}
				f := &cure{c: e.cures, r: &remedy{subject: tt.subject}}
				defer f.c.remove(f, false)
				if atWork {
					f.c.open = append(f.c.open, f)
				} else {
					f.c.remove(f, true)
				}
				// Who brings the answer is an actor, and may not wait for what is looked at.
				e.cures.mu.Lock()
				brought := make(chan struct{})
				go func() {
					defer close(brought)
					w.Answer(&messages.Answer{Err: tt.fails})
				}()
				waited := time.After(time.Minute)
				select {
				case <-brought:
				case <-waited:
					t.Error("who brings the answer has to wait")
				}
				e.cures.mu.Unlock()
				select {
				case <-again:
					if !tt.again {
						t.Fatal("the call is made again")
					}
				case <-answered:
					if tt.again {
						t.Fatal("the call is not made again")
					}
					return
				case <-waited:
					t.Fatal("nothing is done about the answer")
				}
				s.work.Wait()
				f.c.remove(f, false)
				w.Answer(&messages.Answer{Err: tt.fails})
				select {
				case <-answered:
				case <-again:
					t.Error("it is tried for ever")
				case <-time.After(time.Minute):
					t.Error("the second failure is not told")
				}
			})
		}
	}
}

// answers is a port that keeps what it gets.
type answers chan *messages.Answer

func (c answers) Answer(a *messages.Answer) { c <- a }
