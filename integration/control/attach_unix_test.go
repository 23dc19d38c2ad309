//go:build unix

package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/lockedfile"
)

// echoing serves clients that attach with their own lines.
func echoing(_ context.Context, in, out *os.File, hello attach.Hello) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if _, err := fmt.Fprintf(out, "%d: %s\n", hello.PID, lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func shared(t *testing.T, dir string, stop func(bool)) (*control.Server, error) {
	t.Helper()
	return control.Serve(control.Options{StateDir: dir, Name: "main", Configs: []string{"/a.json"}, Host: &fakeHost{}, Attach: echoing, Stop: stop,
		AttachNotes: func(h attach.Hello) []string { return []string{"hello " + h.Settings["x"]} }})
}

// A host for all: one for a folder and a configuration, which clients attach
// to, and which lets go of its place before it ends.
func TestSharedHost(t *testing.T) {
	dir := t.TempDir()
	asked := make(chan bool, 1)
	s, err := shared(t, dir, func(now bool) { asked <- now })
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, s)
	_, err = shared(t, dir, nil)
	var e *control.Error
	if !errors.As(err, &e) || e.Code != control.CodeAlreadyRuns || !strings.Contains(e.Message, fmt.Sprintf("the process %d has", os.Getpid())) {
		t.Errorf("a second host: %v", err)
	}

	configs := []string{"/a.json"}
	c, err := attach.Connect(t.Context(), dir, configs, attach.Hello{PID: 7, Settings: map[string]string{"x": "there"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Welcome.Notes) != 1 || c.Welcome.Notes[0] != "hello there" || c.Welcome.PID != os.Getpid() {
		t.Errorf("the welcome is %+v", c.Welcome)
	}
	lines := bufio.NewReader(c)
	says := func(text string) {
		t.Helper()
		if _, err := c.Write([]byte(text + "\n")); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if got, err := lines.ReadString('\n'); err != nil || got != "7: "+text+"\n" {
			t.Errorf("%q is answered with %q, %v", text, got, err)
		}
	}
	says("one")

	info := s.Info()
	client, err := control.Dial(info)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resp, err := client.Do(t.Context(), "POST", "/v1/stop?now=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if now := <-asked; !now {
		t.Error("the host hears to end in its own time")
	}
	// Its place is free, its client still served.
	next, err := shared(t, dir, nil)
	if err != nil {
		t.Fatalf("the next host: %v", err)
	}
	defer end(t, next)
	if next.Info().Name != "main" {
		t.Errorf("the next host is %s", next.Info().Name)
	}
	says("two")
	_ = c.Close()

	other, err := control.Dial(next.Info())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Do(t.Context(), "POST", "/v1/stop", nil); !errors.As(err, &e) || e.Code != control.CodeNotFound {
		t.Errorf("a host that nobody may stop: %v", err)
	}
	if _, err := other.Do(t.Context(), "GET", attach.Endpoint, nil); !errors.As(err, &e) || e.Code != control.CodeBadRequest {
		t.Errorf("no upgrade: %v", err)
	}
}

// A client of another protocol is told so, and a host of one client takes none.
func TestWhoCannotAttach(t *testing.T) {
	dir := t.TempDir()
	s, err := shared(t, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, s)
	conn, err := attach.DialSocket(t.Context(), s.Info().Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: metamcp\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: {\"protocol\":99}\r\n\r\n", attach.Endpoint, attach.Upgrade, attach.HelloHeader)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	text := make([]byte, 4096)
	n, err := conn.Read(text)
	if got := string(text[:n]); err != nil || !strings.HasPrefix(got, "HTTP/1.1 426 ") || !strings.Contains(got, "speaks protocol 1, and the client's metamcp speaks 99") {
		t.Errorf("another protocol: %s, %v", got, err)
	}

	alone := start(t, control.Options{Host: &fakeHost{}})
	_, err = attach.Dial(t.Context(), alone.Info(), attach.Hello{})
	var refused *attach.RefusedError
	if !errors.As(err, &refused) || !refused.Incompatible() || !strings.Contains(refused.Message, "one client of its own") {
		t.Errorf("a host of one client: %v", err)
	}
}

// A host that was asked to end does, whoever asked for it stays to hear of it, and
// whatever keeps its announcement from being removed: nobody would find it otherwise.
func TestStopIsCarriedOut(t *testing.T) {
	dir := t.TempDir()
	asked := make(chan bool, 1)
	s, err := shared(t, dir, func(now bool) { asked <- now })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }() // it says once more what was in its way
	unlock, err := lockedfile.Lock(t.Context(), filepath.Join(dir, attach.HostsDir, ".lock"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := attach.DialSocket(t.Context(), s.Info().Socket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "POST /v1/stop HTTP/1.1\r\nHost: metamcp\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close() // who asked is gone
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Error("the host goes on without its place")
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// What keeps every host from a place is known before the one that has it is asked.
func TestCheckPlace(t *testing.T) {
	dir, configs := t.TempDir(), []string{"/a.json"}
	s, err := shared(t, dir, func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	defer end(t, s)
	if err := control.CheckPlace(t.Context(), dir, configs); err != nil {
		t.Errorf("a place that another host has: %v", err)
	}
	hosts := filepath.Join(dir, attach.HostsDir)
	pid := filepath.Join(hosts, ".shared-"+attach.Key(configs)+".pid")
	if err := os.Remove(pid); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(pid, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := control.CheckPlace(t.Context(), dir, configs); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("a folder in the place of a file: %v", err)
	}
	if err := os.Remove(pid); err != nil {
		t.Fatal(err)
	}
}
