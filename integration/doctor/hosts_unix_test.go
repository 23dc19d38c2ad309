//go:build unix

package doctor_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/integration/watchdog"
	"github.com/metamcp/metamcp/messages"
)

// stillHost is a host that does nothing.
type stillHost struct{ control.Host }

func (stillHost) Status(context.Context, bool) (*messages.HostStatus, error) {
	return &messages.HostStatus{}, nil
}

// shortState is a machine with a state folder whose path leaves room for
// sockets.
func shortState(t *testing.T) (p *doctor.Patient, state string) {
	t.Helper()
	state, err := os.MkdirTemp("", "md") //nolint:usetesting // the path of t.TempDir leaves no room for a socket on macOS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	return patient(t, t.TempDir(), nil, object{"stateDir": state}), state
}

func serveHost(t *testing.T, state, name, version string, shared bool) {
	t.Helper()
	o := control.Options{StateDir: state, Name: name, Version: version, Host: stillHost{}}
	if shared {
		o.Attach = func(context.Context, *os.File, *os.File, attach.Hello) error { return nil }
	}
	s, err := control.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// deadSocket leaves a socket on which nobody listens.
func deadSocket(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestHosts(t *testing.T) {
	p, state := shortState(t)
	results := examine(t, p, doctor.GroupHosts)
	expect(t, results, want{"hosts.running", "", doctor.OK, "no host runs", ""})
	expect(t, results, want{"hosts.stale", "", doctor.OK, "no socket", ""})

	serveHost(t, state, "new", "1.0.0", false)
	serveHost(t, state, "old", "0.9.0", false)
	serveHost(t, state, "shared", "0.8.0", true)
	dead := filepath.Join(state, "hosts", "dead.sock")
	deadSocket(t, dead)
	info := write(t, filepath.Join(state, "hosts", "dead.json"), encode(t, control.HostInfo{Name: "dead", PID: 1, Version: "1.0.0", Socket: dead}), 0o600)
	orphan := filepath.Join(state, "hosts", "orphan.sock")
	deadSocket(t, orphan)

	results = examine(t, p, doctor.GroupHosts)
	expect(t, results, want{"hosts.running", "new", doctor.OK, fmt.Sprintf("pid %d, metamcp 1.0.0", os.Getpid()), ""})
	expect(t, results, want{"hosts.version", "old", doctor.Warn, "metamcp 0.9.0", "Restart the client"})
	expect(t, results, want{"hosts.version", "shared", doctor.Warn, "metamcp 0.8.0", "metamcp host restart"})
	r := expect(t, results, want{"hosts.stale", "", doctor.Warn, "2 sockets of dead hosts", "--fix"})
	if len(r.Details) != 2 || r.Details[0] != dead || r.Details[1] != orphan {
		t.Errorf("%q", r.Details)
	}
	for _, path := range []string{dead, info, orphan} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("without --fix it removed %s", path)
		}
	}
	p.Fix = true
	if r := expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.stale", "", doctor.OK, "2 sockets of dead hosts removed", ""}); !r.Fixed {
		t.Errorf("%+v", r)
	}
	for _, path := range []string{dead, info, orphan} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("with --fix it left %s", path)
		}
	}
	expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.running", "new", doctor.OK, "", ""})
}

// A host that takes connections and never answers is not dead.
func TestHostThatHangs(t *testing.T) {
	p, state := shortState(t)
	path := filepath.Join(state, "hosts", "hung.sock")
	write(t, filepath.Join(state, "hosts", "hung.json"), encode(t, control.HostInfo{Name: "hung", PID: 7, Version: "1.0.0", Socket: path}), 0o600)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for _, c := range p.Checks() {
		if c.ID == "hosts.running" {
			r := expect(t, c.Run(ctx), want{"", "hung", doctor.Warn, "pid 7, metamcp 1.0.0, does not answer", "kill -9 7"})
			if r.Why == "" {
				t.Error("it does not say why that matters")
			}
		}
	}
}

// sleeper is a process that does nothing.
func sleeper(t *testing.T) (pid int, ended <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was killed
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	return cmd.Process.Pid, done
}

func TestLeftovers(t *testing.T) {
	p, state := shortState(t)
	expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.leftovers", "", doctor.OK, "no process", ""})
	pid, ended := sleeper(t)
	start, ok := proctree.StartTime(pid)
	if !ok {
		t.Fatal("the process is not there")
	}
	// The present process is the host of another start time, that is, of an
	// id that was taken again.
	journal := filepath.Join(state, "run", fmt.Sprintf("host-%d-1.journal", os.Getpid()))
	word := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	text := func(boot string) string {
		return fmt.Sprintf("host %d 1 nobody %s %s\nadd %d %d -\nadd 4000000 1 -\nrubbish\nadd %d 7 -\n", os.Getpid(), word(boot), word(proctree.Namespace()), pid, start, os.Getpid())
	}
	write(t, journal, text("another-boot"), 0o600)
	expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.leftovers", "", doctor.OK, "no process", ""})

	write(t, journal, text(proctree.BootID()), 0o600)
	r := expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.leftovers", "", doctor.Warn, "1 process of dead hosts", "--fix"})
	if len(r.Details) != 1 || r.Details[0] != fmt.Sprintf("pid %d, started by the host that had pid %d", pid, os.Getpid()) {
		t.Errorf("%q", r.Details)
	}
	if _, alive := proctree.StartTime(pid); !alive {
		t.Fatal("without --fix it ended the process")
	}
	p.Fix = true
	if r := expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.leftovers", "", doctor.OK, "1 process of dead hosts ended", ""}); !r.Fixed {
		t.Errorf("%+v", r)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("with --fix it left the process running")
	}
}

// The journal is the watchdog package's: what it writes must be understood.
func TestJournalOfARealHost(t *testing.T) {
	p, state := shortState(t)
	pid, _ := sleeper(t)
	start, _ := proctree.StartTime(pid)
	h := watchdog.New(watchdog.Options{HostID: "doctor-test", StateDir: state})
	h.Ready()
	h.Add(pid, start, "")
	defer h.Close()
	defer h.Remove(pid, start)
	var file string
	testkit.Eventually(t, 20*time.Second, func() error {
		files, err := filepath.Glob(filepath.Join(state, "run", "host-*.journal"))
		if err == nil && len(files) != 1 {
			err = fmt.Errorf("journals %q", files)
		}
		if err == nil {
			file = files[0]
		}
		return err
	})
	expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.leftovers", "", doctor.OK, "no process", ""})
	// The same as if its host had died.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	own, _ := proctree.StartTime(os.Getpid())
	dead := fmt.Sprintf("host %d %d ", os.Getpid(), own)
	if len(text) < len(dead) || string(text[:len(dead)]) != dead {
		t.Fatalf("a journal that begins with %q", text)
	}
	write(t, filepath.Join(state, "run", "host-1-1.journal"), fmt.Sprintf("host %d %d ", os.Getpid(), own+1)+string(text[len(dead):]), 0o600)
	r := expect(t, examine(t, p, doctor.GroupHosts), want{"hosts.leftovers", "", doctor.Warn, "1 process", ""})
	if len(r.Details) != 1 {
		t.Errorf("%q", r.Details)
	}
}

// A limit that no host of this place can keep is said, since a trial leaves it out.
func TestLimitsThatNoHostKeeps(t *testing.T) {
	dir := t.TempDir()
	p := patient(t, dir, object{"many": object{"command": "x", "limits": object{"processes": 5}}, "free": object{"command": "x"}}, object{"stateDir": filepath.Join(dir, "state")})
	var found []doctor.Result
	for _, r := range doctor.Run(t.Context(), p.Checks(), nil, 0) {
		if r.ID == "server.limits" {
			found = append(found, r)
		}
	}
	if len(found) != 1 || found[0].Subject != "many" || found[0].Status != doctor.Warn {
		t.Errorf("%+v", found)
	}
}
