//go:build unix

package child

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func request(id int, pad int) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + itoa(id) + `,"method":"m","params":"` + strings.Repeat("z", pad) + `"}`)
}

// fill sends messages until the pipe takes no more of them, and one of them in part. It
// returns how many were sent. The first one has made the pipe as wide as it gets.
func fill(t *testing.T, p *Process) (sent int) {
	t.Helper()
	full := func() bool {
		p.out.mu.Lock()
		defer p.out.mu.Unlock()
		return p.out.midway
	}
	for ; !full(); sent++ {
		pad := 10_000
		if sent == 0 {
			pad = 2 * wideMessage
		}
		if err := p.Send(request(sent, pad)); err != nil {
			t.Fatal(err)
		}
		if sent > 1000 {
			t.Fatal("the pipe has no end")
		}
	}
	return sent
}

func wantIDs(t *testing.T, got []json.RawMessage, want ...string) {
	t.Helper()
	var ids []string
	for _, id := range got {
		ids = append(ids, string(id))
	}
	if !slices.Equal(ids, want) {
		t.Errorf("the requests %q were taken back, want %q", ids, want)
	}
}

// TestRetract: what the pipe has not taken is taken back and never comes, but for the rest
// of the message of which it has a part; what is sent later does.
func TestRetract(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "late-read")
	r.method(t, 0)
	wantIDs(t, p.Retract()) // nothing waits
	sent := fill(t, p)
	for _, send := range []func() error{
		func() error { return p.Send(request(2001, 10)) },
		func() error { return p.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/m","params":{"id":1}}`)) },
		func() error { return p.Send([]byte(`{"jsonrpc":"2.0","id":5,"result":{"method":"m"}}`)) },
		func() error {
			body := []byte(`{"big":"` + strings.Repeat("y", 300_000) + `"}`)
			return p.Sendv([]byte(`{"jsonrpc":"2.0","id":"2002","method":"m","params":`), body, []byte("}\n"))
		},
		func() error { return p.Send(request(2003, 100_000)) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	wantIDs(t, p.Retract(), "2001", `"2002"`, "2003")
	wantIDs(t, p.Retract())
	if err := p.Send(request(3000, 10)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.Pid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	r.until(t, "all frames", func() bool { return len(r.frames) == 1+sent+1 })
	for i, f := range r.frames[1 : 1+sent] {
		if string(f.ID) != itoa(i) {
			t.Fatalf("frame %d has id %s", i, f.ID)
		}
	}
	if id := string(r.frames[1+sent].ID); id != "3000" {
		t.Errorf("the last frame has id %s", id)
	}
	eventually(t, "nothing waits", func() bool {
		p.out.mu.Lock()
		defer p.out.mu.Unlock()
		return !p.out.running && !p.out.midway && p.out.queued == 0
	})
}

// TestRetractAfterTheEnd: a child that has died says all that it was not sent, in a burst
// too.
func TestRetractAfterTheEnd(t *testing.T) {
	for _, corked := range []bool{false, true} {
		p, r := launch(t, newLauncher(t, nil), "no-read")
		r.method(t, 0)
		b := new(messages.Burst)
		if corked {
			p.Cork(b)
		} else {
			fill(t, p)
		}
		for id := range 3 {
			if err := p.Send(request(2000+id, 10)); err != nil {
				t.Fatal(err)
			}
		}
		if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.until(t, "EOF", func() bool { return len(r.eof) == 1 })
		wantIDs(t, p.Retract(), "2000", "2001", "2002")
		b.End()
		wantIDs(t, p.Retract())
	}
}
