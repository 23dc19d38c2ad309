//go:build unix

package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// place is a home folder with a configuration that hosts and clients share.
// They run without the race detector, since many start here.
type place struct {
	t    testing.TB
	home string
	mark string // of the servers
	// found says that the configuration is named nowhere: it is looked for.
	found bool
}

func newPlace(t testing.TB, entries servers, settings map[string]any) *place {
	t.Helper()
	p := &place{t: t, home: shortDir(t), mark: testkit.NewMark()}
	testkit.WriteConfig(t, p.config(), p.mark, entries, settings)
	t.Cleanup(func() { testkit.KillMarked(t, p.mark) })
	return p
}

// shortDir is a folder whose sockets have short paths.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mmhost") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (p *place) config() string {
	if p.found {
		return filepath.Join(p.home, ".metamcp", "mcp.json")
	}
	return filepath.Join(p.home, "mcp.json")
}

// words are those of a command line that names the configuration.
func (p *place) words(words []string) []string {
	if p.found {
		return words
	}
	return append(words, "--config", p.config())
}

func (p *place) env() []string { return []string{"HOME=" + p.home, "USERPROFILE=" + p.home} }

// run starts metamcp with arguments.
func (p *place) run(words ...string) *testkit.Process {
	p.t.Helper()
	return testkit.StartCommand(p.t, testkit.Command{
		Path: testkit.PlainBinary(p.t), Args: p.words(words), Env: p.env(), Dir: p.home,
	})
}

// host starts a host and waits until it serves.
func (p *place) host(words ...string) *testkit.Process {
	p.t.Helper()
	h := p.run(append([]string{"host"}, words...)...)
	p.serves(h)
	return h
}

func (p *place) serves(h *testkit.Process) {
	p.t.Helper()
	testkit.Eventually(p.t, patience, func() error {
		if st, err := p.status(); err != nil {
			return err
		} else if st.PID != h.PID {
			return fmt.Errorf("the host is %d", st.PID)
		}
		return nil
	})
}

// status is what the host says of itself to "host status". It is looked for as commands
// look for it, in this process: a process for each look would cost more than what is
// waited for.
func (p *place) status() (*messages.HostStatus, error) {
	files := []string{p.config()}
	if _, err := os.Stat(p.config()); p.found && errors.Is(err, fs.ErrNotExist) {
		files = nil
	}
	err := fmt.Errorf("no host is announced for %q", files)
	for _, info := range attach.Find(filepath.Join(p.home, ".metamcp"), files) { // dead ones, too
		var st *messages.HostStatus
		if st, err = statusOf(p.t, info); err == nil {
			return st, nil
		}
	}
	return nil, err
}

func statusOf(t testing.TB, info control.HostInfo) (*messages.HostStatus, error) {
	c, err := control.Dial(info)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(t.Context(), false)
}

// shell runs a command of metamcp to its end.
func (p *place) shell(words ...string) ([]byte, error) {
	cmd := exec.Command(testkit.PlainBinary(p.t), p.words(words)...)
	cmd.Env, cmd.Dir = append(os.Environ(), p.env()...), p.home
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, &stderr)
	}
	return out, err
}

// attached is a client whose metamcp must find the host.
func (p *place) attached() *client {
	p.t.Helper()
	proc := p.run("--attach=require")
	return &client{Lines: proc.Lines(p.t), p: proc, t: p.t}
}

func (p *place) client() *client {
	p.t.Helper()
	c := p.attached()
	c.Handshake()
	return c
}

func (p *place) awaitClients(n int) {
	p.t.Helper()
	testkit.Eventually(p.t, patience, func() error {
		st, err := p.status()
		if err == nil && len(st.Clients) != n {
			err = fmt.Errorf("%d clients are attached, not %d", len(st.Clients), n)
		}
		return err
	})
}

// echoes calls a server and makes sure that the answer is this client's own.
func (c *client) echoes(server, text string) {
	c.t.Helper()
	result := c.resultOf(c.start(server, "echo", `{"text":"`+text+`"}`))
	if !bytes.Contains(result, []byte(`"text":"`+text+`"`)) || bytes.Contains(result, []byte(`"isError":true`)) {
		c.t.Errorf("%s of %s is answered with %.500s", text, server, result)
	}
}

func demos(t testing.TB, n int) servers {
	all := servers{}
	for i := range n {
		all[fmt.Sprintf("d%d", i)] = testkit.DemoServer(t)
	}
	return all
}

// Five clients of one host have one process for each server, and each its own
// answers; ending them in any way changes nothing for the others.
func TestSharedHost(t *testing.T) {
	entries := demos(t, 5)
	entries["everything"] = everythingEntry(t)
	p := newPlace(t, entries, nil)
	h := p.host()
	clients := make([]*client, 5)
	for i := range clients {
		clients[i] = p.client()
	}
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for n := range 20 {
				for s := range 5 {
					c.echoes(fmt.Sprintf("d%d", s), fmt.Sprintf("client %d call %d", i, n))
				}
			}
			result := c.resultOf(c.start("everything", "echo", fmt.Sprintf(`{"message":"npm %d"}`, i)))
			if !bytes.Contains(result, fmt.Appendf(nil, "npm %d", i)) {
				t.Errorf("client %d got %s", i, result)
			}
		})
	}
	all.Wait()
	if procs := alive(t, p.mark); len(procs) != 6 {
		t.Errorf("six servers have %d processes: %v", len(procs), procs)
	}
	p.awaitClients(5)

	kept := clients[4]
	clients[0].p.Signal(t, syscall.SIGKILL)
	clients[1].p.CloseStdin()
	if code := clients[1].p.Wait(t, patience); code != 0 {
		t.Errorf("a client that ended has status %d", code)
	}
	clients[2].p.Signal(t, syscall.SIGSTOP)
	for n := range 200 { // more than its pipe holds
		clients[2].Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"big%d","method":"tools/list"}`, n))
	}
	clients[3].Send([]byte("no JSON\n\x00\xff"))
	clients[3].p.Signal(t, syscall.SIGTERM)
	for n := range 50 {
		kept.echoes("d0", fmt.Sprint("after the others ", n))
	}
	clients[2].p.Signal(t, syscall.SIGKILL)
	p.awaitClients(1)
	kept.echoes("d1", "alone")
	if procs := alive(t, p.mark); len(procs) != 6 {
		t.Errorf("six servers have %d processes afterwards", len(procs))
	}
	h.Signal(t, syscall.SIGTERM)
	if code := h.Wait(t, patience); code != 0 {
		t.Errorf("the host ended with status %d: %s", code, h.Stderr)
	}
	testkit.AwaitMarkedGone(t, patience, p.mark)
}

// load is a client that calls without a pause.
type load struct {
	stop    chan struct{}
	done    chan struct{}
	mu      sync.Mutex
	sent    map[string]string // text by id
	answers map[string][]string
	last    time.Time // of a right answer
}

func (p *place) load(n int, server string) *load {
	p.t.Helper()
	proc := p.run("--attach=require")
	l := &load{stop: make(chan struct{}), done: make(chan struct{}), sent: map[string]string{}, answers: map[string][]string{}}
	read := make(chan struct{})
	out := proc.Stdout(p.t)
	go func() {
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var m struct{ ID json.RawMessage }
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				p.t.Errorf("the client got %q", lines.Text())
			}
			l.mu.Lock()
			if text := l.sent[string(m.ID)]; text != "" {
				l.answers[string(m.ID)] = append(l.answers[string(m.ID)], lines.Text())
				if strings.Contains(lines.Text(), text) {
					l.last = time.Now()
				}
			}
			l.mu.Unlock()
		}
	}()
	in := proc.Stdin()
	send := func(line string) {
		if _, err := in.Write([]byte(line + "\n")); err != nil {
			p.t.Errorf("the client's metamcp has gone: %v", err)
		}
	}
	go func() {
		defer close(l.done)
		send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1"}}}`)
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for i := 1; ; i++ {
			id, text := strconv.Itoa(i), fmt.Sprintf("load %d call %d.", n, i)
			l.mu.Lock()
			l.sent[id] = text
			l.mu.Unlock()
			send(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"` + server + `","tool":"echo","args":{"text":"` + text + `"}}}}`)
			select {
			case <-l.stop:
				proc.CloseStdin()
				proc.Wait(p.t, patience)
				<-read
				return
			case <-tick.C:
			}
		}
	}()
	return l
}

// flows waits until calls sent after now are answered.
func (l *load) flows(t testing.TB) {
	t.Helper()
	from := time.Now()
	testkit.Eventually(t, patience, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last.After(from) {
			return nil
		}
		return fmt.Errorf("%d calls were sent, and the last answer came at %v", len(l.sent), l.last)
	})
}

// end returns how many calls have an unknown outcome, after it made sure that
// each has one answer.
func (l *load) end(t testing.TB) (unknown int) {
	t.Helper()
	close(l.stop)
	<-l.done
	for id, text := range l.sent {
		got := l.answers[id]
		switch {
		case len(got) != 1:
			t.Errorf("call %s has %d answers: %q", id, len(got), got)
		case strings.Contains(got[0], text):
		case strings.Contains(got[0], "HOST_AWAY") && strings.Contains(got[0], "unknown"):
			unknown++
		default:
			t.Errorf("call %s is answered with %s", id, got[0])
		}
	}
	return unknown
}

// A host that is killed under load and started again has its clients back, and
// each of their calls has one answer.
func TestSharedHostIsKilled(t *testing.T) {
	p := newPlace(t, demos(t, 3), nil)
	h := p.host()
	var loads []*load
	for i := range 5 {
		loads = append(loads, p.load(i, fmt.Sprintf("d%d", i%3)))
	}
	for _, l := range loads {
		l.flows(t)
	}
	for range 2 {
		h.Signal(t, syscall.SIGKILL)
		<-h.Exited()
		h = p.host()
		for _, l := range loads {
			l.flows(t)
		}
	}
	unknown := 0
	for _, l := range loads {
		unknown += l.end(t)
	}
	t.Logf("%d calls have an unknown outcome", unknown)
	h.Signal(t, syscall.SIGTERM)
	h.Wait(t, patience)
	testkit.AwaitMarkedGone(t, patience, p.mark)
}

// A restart is a pause: no call fails.
func TestSharedHostIsReplaced(t *testing.T) {
	p := newPlace(t, demos(t, 3), nil)
	h := p.host()
	var loads []*load
	for i := range 5 {
		loads = append(loads, p.load(i, fmt.Sprintf("d%d", i%3)))
	}
	for range 3 {
		for _, l := range loads {
			l.flows(t)
		}
		next := p.run("host", "--replace")
		var late []*client
		for range 10 { // that come in the very moment
			late = append(late, p.attached())
		}
		for i, c := range late {
			c.Handshake()
			c.echoes("d0", fmt.Sprint("late ", i))
			c.p.CloseStdin()
		}
		p.serves(next)
		if code := h.Wait(t, patience); code != 0 {
			t.Errorf("the host that was replaced ended with status %d: %s", code, h.Stderr)
		}
		h = next
	}
	for _, l := range loads {
		l.flows(t)
		if n := l.end(t); n != 0 {
			t.Errorf("%d calls have an unknown outcome", n)
		}
	}
}

// A host that began without a file is found by the one that it has read since, by
// commands and by clients; those that were there before go on, also with the next host.
func TestSharedHostBeforeItsConfiguration(t *testing.T) {
	p := &place{t: t, home: shortDir(t), mark: testkit.NewMark(), found: true}
	t.Cleanup(func() { testkit.KillMarked(t, p.mark) })
	h := p.host()
	early := p.client()
	early.refuse("d0", "echo", `{"text":"x"}`, "SERVER_NOT_FOUND")
	testkit.WriteConfig(t, p.config(), p.mark, demos(t, 1), nil)
	p.serves(h)
	if _, err := p.shell("host", "status"); err != nil {
		t.Error(err)
	}
	late := p.client()
	late.echoes("d0", "late")
	early.echoes("d0", "early")
	p.awaitClients(2)
	next := p.run("host", "--replace")
	p.serves(next)
	if code := h.Wait(t, patience); code != 0 {
		t.Errorf("the host that was replaced ended with status %d: %s", code, h.Stderr)
	}
	p.awaitClients(2)
	for _, c := range []*client{early, late} {
		c.echoes("d0", "after")
	}
}

// Of those who replace the host at the same moment each has a new host after that,
// its own or another's.
func TestRestartsAtOnce(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	if code := p.run("host", "start").Wait(t, patience); code != 0 {
		t.Fatal("no host was started")
	}
	t.Cleanup(func() { _, _ = p.shell("host", "stop", "--now") })
	c := p.client()
	for range 2 {
		var restarts []*testkit.Process
		for range 4 {
			restarts = append(restarts, p.run("host", "restart"))
		}
		for _, r := range restarts {
			if code := r.Wait(t, patience); code != 0 {
				t.Errorf("a restart ended with status %d: %s", code, r.Stderr)
			}
		}
		c.echoes("d0", "still there")
	}
}

// However many ask a host to make way, calls in flight are answered; only one who does
// not want to wait ends them.
func TestAskedToEndByMany(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	p := newPlace(t, servers{"d0": testkit.DemoServer(t, "--calls-file", calls)}, nil)
	h := p.host()
	c := p.client()
	id := c.start("d0", "slow", `{"ms":2000}`)
	eventually(t, "the call does not begin", func() bool { return len(records(t, calls)) == 1 })
	info, err := control.Find(filepath.Join(p.home, ".metamcp"), "")
	if err != nil {
		t.Fatal(err)
	}
	var asking []net.Conn
	for range 3 { // all are there before the first one is heard
		conn, err := net.Dial("unix", info.Socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		asking = append(asking, conn)
	}
	for i, conn := range asking {
		_, err := fmt.Fprint(conn, "POST /v1/stop HTTP/1.1\r\nHost: metamcp\r\nContent-Length: 0\r\n\r\n")
		if gone := i > 0 && errors.Is(err, syscall.EPIPE); err != nil && !gone { // the host heard the first one before
			t.Fatal(err)
		}
	}
	if result := c.resultOf(id); bytes.Contains(result, []byte(`"isError":true`)) {
		t.Errorf("the call in flight ended with %s", result)
	}
	if code := h.Wait(t, patience); code != 0 {
		t.Errorf("the host ended with status %d: %s", code, h.Stderr)
	}
}

// The host after one that was killed has its flags.
func TestRestartAfterAKill(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	if out, err := p.shell("host", "start", "--pool-size", "7"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { _, _ = p.shell("host", "stop", "--now") })
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	out, err := p.shell("host", "restart")
	if err != nil || !strings.Contains(string(out), "it has the flags of the host before: --pool-size=7") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A host whose place no other one could take goes on, and is asked nothing.
func TestPlaceThatNoneCanTake(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	h := p.host()
	c := p.client()
	hosts := filepath.Join(p.home, ".metamcp", "hosts")
	files, err := filepath.Glob(filepath.Join(hosts, ".shared-*.pid"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.Rename(files[0], files[0]+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(files[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := p.shell("host", "restart"); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("a restart that cannot succeed: %v", err)
	}
	p.serves(h)
	c.echoes("d0", "as before")
}

// A new host that cannot start leaves the old one alone.
func TestBrokenReplacement(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	h := p.host()
	c := p.client()
	if err := os.WriteFile(p.config(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.run("host", "--replace").Wait(t, patience); code == 0 {
		t.Error("a host starts with a broken configuration")
	}
	c.echoes("d0", "still there")
	select {
	case <-h.Exited():
		t.Error("the host has ended")
	default:
	}
}

// Of two hosts that start at once one wins, and the other says who has it. What
// a killed one left is no obstacle.
func TestTwoHostsAtOnce(t *testing.T) {
	p := newPlace(t, nil, nil)
	for range 3 {
		one, two := p.run("host"), p.run("host")
		winner, loser := one, two
		select {
		case <-one.Exited():
			winner, loser = two, one
		case <-two.Exited():
		case <-time.After(patience):
			t.Fatal("two hosts run")
		}
		if code := loser.Wait(t, patience); code != 1 || !strings.Contains(loser.Stderr.String(), "a host runs already for this state folder and configuration: the process "+strconv.Itoa(winner.PID)) {
			t.Errorf("the second host ended with status %d and %s", code, loser.Stderr)
		}
		p.serves(winner)
		winner.Signal(t, syscall.SIGKILL)
		<-winner.Exited()
	}
}

// Very many clients that come at once are all served.
func TestManyClientsAtOnce(t *testing.T) {
	const many = 200
	p := newPlace(t, demos(t, 1), nil)
	p.host()
	clients := make([]*client, many)
	for i := range clients {
		clients[i] = p.attached()
	}
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			c.Handshake()
			c.echoes("d0", fmt.Sprint("client ", i))
		})
	}
	all.Wait()
	p.awaitClients(many)
	if procs := alive(t, p.mark); len(procs) != 1 {
		t.Errorf("one server has %d processes", len(procs))
	}
}

// A host that is stopped for a while loses nothing.
func TestSharedHostIsStopped(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	h := p.host()
	c := p.client()
	c.echoes("d0", "before")
	h.Signal(t, syscall.SIGSTOP)
	var ids []string
	for i := range 50 {
		ids = append(ids, c.start("d0", "echo", fmt.Sprintf(`{"text":"meanwhile %d"}`, i)))
	}
	late := p.attached()
	late.Send([]byte(`{"jsonrpc":"2.0","id":"late","method":"ping"}`))
	h.Signal(t, syscall.SIGCONT)
	for i, id := range ids {
		if result := c.resultOf(id); !bytes.Contains(result, fmt.Appendf(nil, `"meanwhile %d"`, i)) {
			t.Errorf("%s", result)
		}
	}
	if result, failure := late.answer("\"late\""); failure != nil {
		t.Errorf("the late client got %s, %s", result, failure)
	}
}

// With few descriptors the clients that find no place are told so, and the
// others are served.
func TestFewDescriptors(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	h := testkit.StartCommand(t, testkit.Command{
		Path: "/bin/sh", Args: []string{"-c", `ulimit -n 256 && exec "$0" "$@"`, testkit.PlainBinary(t), "host", "--config", p.config()}, Env: p.env(), Dir: p.home,
	})
	p.serves(h)
	const places = (256 - 64) / 4
	clients := make([]*client, places)
	for i := range clients {
		clients[i] = p.client()
	}
	more := p.run("--attach=require")
	if code := more.Wait(t, patience); code != 1 || !strings.Contains(more.Stderr.String(), "48 clients are attached to this host, which is the most for its limit of open files") ||
		!strings.Contains(more.Stderr.String(), "ulimit -n") {
		t.Errorf("a client too many ended with status %d and %s", code, more.Stderr)
	}
	for i, c := range clients {
		c.echoes("d0", fmt.Sprint("client ", i))
	}
	clients[0].p.CloseStdin()
	p.awaitClients(places - 1)
	p.client().echoes("d0", "a place is free")
}

// What attach says without a host, and with one of its own.
func TestAttachModes(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	none := p.run("--attach=require")
	if code := none.Wait(t, patience); code != 1 || !strings.Contains(none.Stderr.String(), "no host runs for this configuration") {
		t.Errorf("without a host, require ends with status %d and %s", code, none.Stderr)
	}
	alone := p.run("--attach=auto")
	c := &client{Lines: alone.Lines(t), p: alone, t: t}
	c.Handshake()
	c.echoes("d0", "alone")
	h := p.host()
	c.echoes("d0", "still alone")
	p.awaitClients(0)
	for _, words := range [][]string{{"--attach=never"}, {"--name", "own"}} {
		own := p.run(words...)
		oc := &client{Lines: own.Lines(t), p: own, t: t}
		oc.Handshake()
		oc.echoes("d0", "of its own")
	}
	p.awaitClients(0)
	if code := p.run("--attach=require", "--name", "own").Wait(t, patience); code != 2 {
		t.Errorf("require with --name ends with status %d", code)
	}
	// Settings of a client take the long way, and the host says what it ignores.
	wishes := p.run("--pool-size", "3", "--auto-provision=false")
	wc := &client{Lines: wishes.Lines(t), p: wishes, t: t}
	wc.Handshake()
	wc.echoes("d0", "attached")
	p.awaitClients(1)
	testkit.Eventually(t, patience, func() error {
		if text := wishes.Stderr.String(); !strings.Contains(text, "ignored here: pool.poolSize") {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
	h.Signal(t, syscall.SIGTERM)
	h.Wait(t, patience)
	if _, err := p.shell("host", "status"); err == nil {
		t.Error("host status finds a host that has ended")
	}
}

// The commands that run a host in the background.
func TestHostCommands(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	if _, err := p.shell("host", "stop"); err == nil || !strings.Contains(err.Error(), "no host runs") {
		t.Errorf("stop without a host: %v", err)
	}
	say := func(want string, words ...string) {
		t.Helper()
		out, err := p.shell(words...)
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v says %q, %v", words, out, err)
		}
	}
	say("the host main runs (pid ", "host", "start")
	t.Cleanup(func() { _, _ = p.shell("host", "stop", "--now") })
	before, err := p.status()
	if err != nil {
		t.Fatal(err)
	}
	say("runs already", "host", "start")
	say("it was started without --pool-size=7", "host", "start", "--pool-size", "7")
	c := p.client()
	c.echoes("d0", "one")
	say("the host main runs (pid ", "host", "restart")
	switch after, err := p.status(); {
	case err != nil:
		t.Fatal(err)
	case after.PID == before.PID:
		t.Errorf("after a restart the host is still %d", after.PID)
	}
	c.echoes("d0", "two")
	say("e2e (version 1, pid "+strconv.Itoa(c.p.PID), "host", "status")
	say("has ended", "host", "stop")
	id := c.start("d0", "echo", `{"text":"three"}`)
	say("the host main runs (pid ", "host", "start")
	if result := c.resultOf(id); !bytes.Contains(result, []byte("three")) {
		t.Errorf("a call that waited for the host got %s", result)
	}
	logs, err := filepath.Glob(filepath.Join(p.home, ".metamcp", "logs", "hosts", "*.log"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("the logs are %v, %v", logs, err)
	}
	testkit.Eventually(t, patience, func() error { // a host may serve before it has written so
		text, err := os.ReadFile(logs[0])
		if n := strings.Count(string(text), "serves"); err == nil && n != 3 {
			return fmt.Errorf("%d hosts serve by the log %s", n, text)
		}
		return err
	})
}

// The trace for people of a host in the background has a file of its own, and drives
// nothing out of its log.
func TestTraceOfAHostInTheBackground(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	if _, err := p.shell("host", "start", "--trace"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.shell("host", "stop", "--now") })
	c := p.client()
	for _, text := range []string{"one", "two", "three"} {
		c.echoes("d0", text)
	}
	said := func(suffix string) string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(p.home, ".metamcp", "logs", "hosts", "*"+suffix))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %v, %v", suffix, files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	testkit.Eventually(t, patience, func() error { // the end of a host does not wait long for its log
		if text := said(".log"); !strings.Contains(text, "serves") {
			return fmt.Errorf("the log holds %.500s", text)
		}
		return nil
	})
	if _, err := p.shell("host", "stop"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		if n := strings.Count(said(".trace"), "◀ d0/echo"); n != 3 {
			return fmt.Errorf("%d answers are in the trace", n)
		}
		return nil
	})
	if text := said(".log"); strings.Contains(text, "d0/echo") {
		t.Errorf("the log holds %.500s", text)
	}
	if text := said(".err"); text != "" {
		t.Errorf("what is for the Go runtime holds %.500s", text)
	}
}

// What nohup has started goes on when its terminal is gone, and ends in order as ever.
func TestNohup(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	nohup := func(words ...string) *testkit.Process {
		t.Helper()
		return testkit.StartCommand(t, testkit.Command{
			Path: "/bin/sh", Args: append([]string{"-c", `trap "" HUP; exec "$0" "$@" --config "$CONFIG"`, testkit.PlainBinary(t)}, words...),
			Env: append(p.env(), "CONFIG="+p.config()), Dir: p.home,
		})
	}
	shared := nohup("host")
	p.serves(shared)
	for _, c := range []struct {
		name     string
		hangsUp  *testkit.Process // nil: the client's own
		attached string
	}{
		{"a relay", nil, "--attach=require"},
		{"alone", nil, "--attach=never"},
		{"a host", shared, "--attach=require"}, // which ends
	} {
		t.Run(c.name, func(t *testing.T) {
			proc := nohup(c.attached)
			client := &client{Lines: proc.Lines(t), p: proc, t: t}
			client.Handshake()
			client.echo("d0", "before")
			if c.hangsUp == nil {
				c.hangsUp = proc
			}
			c.hangsUp.Signal(t, syscall.SIGHUP)
			for i := 0; i < 100 && !t.Failed(); i++ { // one that ends may answer a few
				client.prompt("d0")
			}
			c.hangsUp.Signal(t, syscall.SIGTERM)
			if code := c.hangsUp.Wait(t, patience); code != 0 {
				t.Errorf("exit status %d", code)
			}
		})
	}
}

// A host in the background that was started from within a server outlives that.
func TestHostStartedByAServer(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	outer := host(t, servers{"starter": {
		"command": "/bin/sh",
		"args":    []string{"-c", `"$0" host start --config "$1" >&2 && exec "$0" demo-server`, testkit.PlainBinary(t), p.config()},
		"env":     map[string]string{"HOME": p.home},
	}}, nil)
	t.Cleanup(func() { _, _ = p.shell("host", "stop", "--now") })
	outer.echo("starter", "the host runs")
	started := p.pid()
	outer.p.CloseStdin()
	if code := outer.p.Wait(t, patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	p.client().echoes("d0", "it runs still")
	if now := p.pid(); now != started {
		t.Errorf("the host is %d, and was %d", now, started)
	}
}

// A host that systemd starts tells it when it is ready, that it lives, and that
// it ends.
func TestHostNotifiesSystemd(t *testing.T) {
	p := newPlace(t, demos(t, 1), nil)
	path := filepath.Join(p.home, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	h := testkit.StartCommand(t, testkit.Command{
		// As systemd does, which knows the process before its program.
		Path: "/bin/sh", Args: []string{"-c", `SYSTEMD_EXEC_PID=$$ exec "$0" "$@"`, testkit.PlainBinary(t), "host", "--config", p.config()}, Dir: p.home,
		Env: append(p.env(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=300000"),
	})
	next := func() string {
		t.Helper()
		buf := make([]byte, 4096)
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := socket.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	if got := next(); got != "READY=1\nSTATUS=host main" {
		t.Errorf("systemd hears %q", got)
	}
	p.client().echoes("d0", "when it is ready it serves")
	for range 4 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("systemd hears %q", got)
		}
	}
	if _, err := p.shell("host", "restart"); err == nil || !strings.Contains(err.Error(), "systemctl --user restart metamcp.service") {
		t.Errorf("a restart past systemd: %v", err)
	}
	h.Signal(t, syscall.SIGTERM)
	testkit.Eventually(t, patience, func() error {
		if got := next(); got != "STOPPING=1" {
			return fmt.Errorf("systemd hears %q", got)
		}
		return nil
	})
	if code := h.Wait(t, patience); code != 0 {
		t.Errorf("the host ended with status %d", code)
	}
}

// BenchmarkStart is the time from the start of a client's metamcp until
// tools/list is answered: attached to a host, and with servers of its own.
func BenchmarkStart(b *testing.B) {
	p := newPlace(b, demos(b, 5), nil)
	p.host()
	for _, mode := range []string{"require", "never"} {
		b.Run("attach="+mode, func(b *testing.B) {
			for b.Loop() {
				proc := p.run("--attach=" + mode)
				c := &client{Lines: proc.Lines(b), p: proc, t: b}
				c.Handshake()
				if _, failure := c.ask("tools/list", "{}"); failure != nil {
					b.Fatalf("tools/list: %s", failure)
				}
				b.StopTimer()
				proc.CloseStdin()
				proc.Wait(b, patience)
				b.StartTimer()
			}
		})
	}
}
