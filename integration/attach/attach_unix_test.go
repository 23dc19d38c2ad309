//go:build unix

package attach

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// place is a state folder with one announced host, whose socket a test answers.
func place(t *testing.T, configs string) (stateDir string, l net.Listener) {
	t.Helper()
	stateDir, err := os.MkdirTemp("", "mm") //nolint:usetesting // the folder of a test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(stateDir) })
	dir := filepath.Join(stateDir, HostsDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "main.sock")
	l, err = net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	text := `{"name":"main","pid":1,"started":"2026-01-02T03:04:05Z","version":"1","shared":true,"socket":"` + socket + `","configs":` + configs + `}`
	if err := os.WriteFile(filepath.Join(dir, "main.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return stateDir, l
}

// answer gives the next connection a text, and what follows it in the same
// breath.
func answer(t *testing.T, l net.Listener, text string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		buf := make([]byte, 4096)
		_, _ = c.Read(buf)
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}()
	t.Cleanup(func() { <-done })
}

func TestConnect(t *testing.T) {
	dir, l := place(t, `["/a.json"]`)
	configs := []string{"/a.json"}
	answer(t, l, "HTTP/1.1 101 Switching Protocols\r\nmetamcp-welcome: {\"protocol\":1,\"name\":\"main\"}\r\n\r\n{\"first\":1}\n")
	c, err := Connect(t.Context(), dir, configs, Hello{PID: 7})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil || string(text) != "{\"first\":1}\n" || c.Welcome.Name != "main" {
		t.Errorf("behind the welcome came %q, %v", text, err)
	}
	_ = c.Close()

	for _, tt := range []struct {
		answer       string
		want         string
		incompatible bool
	}{
		{"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 71\r\n\r\n" + `{"code":"PROTOCOL_MISMATCH","message":"another protocol","hint":"wait"}`, "another protocol; wait", true},
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", "answered with status 404", true},
		{"HTTP/1.1 503 Busy\r\n\r\n", "answered with status 503", false},
		{"HTTP/1.1 503 Busy\r\nContent-Length: 99999999\r\n\r\n", "answered with status 503", false},
		{"HTTP/1.1 503 Busy\r\nContent-Length: -1\r\n\r\n", "answered with status 503", false},
		{"HTTP/1.1 101 Switching\r\nMetamcp-Welcome: {\"protocol\":2}\r\n\r\n", "speaks protocol 2", true},
		{"HTTP/1.1 101 Switching\r\nMetamcp-Welcome: no\r\n\r\n", "is not understood", false},
		{"SSH-2.0\r\n", "it answers", false},
		{"HTTP/1.1 abc\r\n\r\n", "it answers", false},
		{"HTTP/1.1 101 Switching\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", "too long", false},
		{"", "does not answer", false},
	} {
		answer(t, l, tt.answer)
		_, err := Connect(t.Context(), dir, configs, Hello{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60q: %v, want %s", tt.answer, err, tt.want)
			continue
		}
		var refused *RefusedError
		if got := errors.As(err, &refused) && refused.Incompatible(); got != tt.incompatible {
			t.Errorf("%.60q: incompatible is %v", tt.answer, got)
		}
	}

	if _, err := Connect(t.Context(), dir, []string{"/b.json"}, Hello{}); !errors.Is(err, ErrNoHost) {
		t.Errorf("of other files: %v", err)
	}
	_ = l.Close()
	if _, err := Connect(t.Context(), dir, configs, Hello{}); !errors.Is(err, ErrNoHost) {
		t.Errorf("where nobody listens: %v", err)
	}
	if _, err := Connect(t.Context(), filepath.Join(dir, "none"), configs, Hello{}); !errors.Is(err, ErrNoHost) {
		t.Errorf("without a folder: %v", err)
	}
}

// What is announced in a folder that others can write to, or that is another user's or a
// link, may be anybody's word: nobody attaches there, or waits.
func TestFolderMustBeOurs(t *testing.T) {
	foreign := func(dir string) error { return os.Chmod(dir, 0o701) } // only root can give a folder away
	if os.Geteuid() == 0 {
		foreign = func(dir string) error { return os.Chown(dir, 4711, -1) }
	}
	for name, spoil := range map[string]func(dir string) error{
		"open to others":    func(dir string) error { return os.Chmod(dir, 0o755) },
		"open to its group": func(dir string) error { return os.Chmod(dir, 0o770) },
		"a link": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+"-there"), os.Symlink(dir+"-there", dir))
		},
		"another user's": foreign,
	} {
		stateDir, l := place(t, "[]")
		over, err := Announce(stateDir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(over)
		if found := Find(stateDir, nil); len(found) != 1 || !Coming(stateDir, nil) {
			t.Fatalf("before there are %v", found)
		}
		if err := spoil(filepath.Join(stateDir, HostsDir)); err != nil {
			t.Fatal(err)
		}
		answer(t, l, "HTTP/1.1 101 Switching Protocols\r\nmetamcp-welcome: {\"protocol\":1,\"name\":\"main\"}\r\n\r\n")
		if c, err := Connect(t.Context(), stateDir, nil, Hello{}); !errors.Is(err, ErrNoHost) {
			t.Errorf("%s: attached to %+v, %v", name, c, err)
		}
		// Root looks at everybody's hosts.
		shown := name == "another user's" && os.Geteuid() == 0
		if found := Find(stateDir, nil); (len(found) > 0) != shown || Coming(stateDir, nil) != shown {
			t.Errorf("%s: there are %v", name, found)
		}
		_ = l.Close() // nobody came
	}
}

// Only root looks at what another user has announced, and takes part in it no more than
// anybody else.
func TestWhoseFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	own := os.Geteuid()
	for _, tt := range []struct {
		self int
		look bool
		want bool
	}{{own, false, true}, {own, true, true}, {own + 1, false, false}, {own + 1, true, false}, {0, true, true}, {0, false, own == 0}} {
		if err := checkFolder(dir, tt.self, tt.look); (err == nil) != tt.want {
			t.Errorf("%d, who only looks: %v: %v", tt.self, tt.look, err)
		}
	}
}

// A socket in the folder of short paths is as good as that folder.
func TestShortFolderMustBeOurs(t *testing.T) {
	tmp, err := os.MkdirTemp("", "mm") //nolint:usetesting // the folder of a test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	path := filepath.Join(ShortDir(), "a"+SocketSuffix)
	dial := func() error {
		c, err := DialSocket(t.Context(), path)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := dial(); !NobodyListens(err) {
		t.Errorf("without a folder: %v", err)
	}
	if err := os.Mkdir(ShortDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := dial(); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(ShortDir(), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := dial(); err == nil || NobodyListens(err) || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a folder that is open to others: %v", err)
	}
	// Nor does the host hang, which would be a reason to kill it.
	var notOurs *NotOursError
	const short = 200 * time.Millisecond
	there, err := answers(t.Context(), HostInfo{Name: "h", PID: 7, Socket: path}, short)
	if there || !errors.As(err, &notOurs) || !strings.Contains(err.Error(), "the host h (pid 7) cannot be reached: ") || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a host in a folder that is open to others: %v, %v", there, err)
	}
}

// What lies with the rights of a socket stays so; a host that is overloaded may have no
// room for one more connection.
func TestUnusableSockets(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&NotOursError{io.EOF}, true},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)}, true},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EAGAIN)}, false},
		{context.DeadlineExceeded, false}, {io.EOF, false},
	} {
		if got := Unusable(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

// Who listens is asked of the system: another user's process is no host of ours.
func TestStrangersAreNoHosts(t *testing.T) {
	_, l := place(t, "[]")
	c, err := DialSocket(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if uid, err := PeerUID(c); err != nil || uid != os.Geteuid() {
		t.Errorf("there listens %d, %v", uid, err)
	}
	for _, tt := range []struct {
		self, uid int
		err       error
		want      bool
	}{
		{1000, 1000, nil, true}, {1000, 0, nil, true}, {0, 1000, nil, true}, {1000, 1001, nil, false}, {1000, 1000, io.EOF, false},
	} {
		err := checkPeer(c, func(net.Conn) (int, error) { return tt.uid, tt.err }, tt.self)
		if (err == nil) != tt.want {
			t.Errorf("%+v: %v", tt, err)
		}
		var notOurs *NotOursError
		if judged := err != nil && tt.err == nil; errors.As(err, &notOurs) != judged {
			t.Errorf("%+v: is %v a judgement? want %v", tt, err, judged)
		}
	}
}

func TestSameFiles(t *testing.T) {
	dir := t.TempDir()
	a, b, link := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "l")
	for _, p := range []string{a, b} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		one, two []string
		want     bool
	}{
		{nil, []string{}, true}, {[]string{a, b}, []string{a, b}, true}, {[]string{a, b}, []string{b, a}, false},
		{[]string{link}, []string{a}, true}, {[]string{a}, []string{a, b}, false}, {[]string{"/no/x"}, []string{"/no/x"}, true}, {[]string{"/no/x"}, []string{"/no/y"}, false},
	} {
		if got := SameFiles(tt.one, tt.two); got != tt.want {
			t.Errorf("%v and %v: %v", tt.one, tt.two, got)
		}
		if same := Key(tt.one) == Key(tt.two); same != tt.want {
			t.Errorf("the keys of %v and %v are the same: %v", tt.one, tt.two, same)
		}
	}
	if Readable([]string{a, dir}) || !Readable([]string{a, "/no/x"}) {
		t.Error("what can be read again")
	}
}

func TestComing(t *testing.T) {
	dir, _ := place(t, "[]")
	if Coming(dir, nil) {
		t.Error("a host comes that nobody announced")
	}
	over, err := Announce(dir, nil)
	if err != nil || !Coming(dir, nil) || Coming(dir, []string{"/a"}) {
		t.Errorf("an announced host: %v", err)
	}
	another := exec.Command("true") // has ended when it is looked for
	if err := another.Run(); err != nil {
		t.Fatal(err)
	}
	dead := comingPath(dir, nil, another.Process.Pid)
	living := comingPath(dir, nil, os.Getppid())
	for _, path := range []string{dead, living} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	over()
	if !Coming(dir, nil) {
		t.Error("who took back its own announcement took back another's")
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(living, long, long); err != nil {
		t.Fatal(err)
	}
	if Coming(dir, nil) {
		t.Error("a host is believed to come for ever, or after its process has ended")
	}
	if err := os.Chtimes(dead, long, long); err != nil {
		t.Fatal(err)
	}
	if Coming(dir, nil) {
		t.Error("a host is believed to come")
	}
	if left, err := filepath.Glob(filepath.Join(dir, HostsDir, ".shared-*")); err != nil || len(left) > 0 {
		t.Errorf("announcements stay: %v, %v", left, err)
	}
}

// A process that has ended is gone, also before anybody has waited for it.
func TestLives(t *testing.T) {
	if !Lives(os.Getpid()) {
		t.Error("this process does not live")
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat") // ends when nobody holds the pipe's other end
	cmd.Stdin = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if !Lives(cmd.Process.Pid) {
		t.Error("a process that waits for input does not live")
	}
	_ = out.Close()
	if runtime.GOOS == "linux" {
		for deadline := time.Now().Add(time.Minute); Lives(cmd.Process.Pid); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Error("a process that has ended lives until somebody waits for it")
				break
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if Lives(cmd.Process.Pid) {
		t.Error("a process that was waited for lives")
	}
}

// A host that takes connections and says nothing hangs; one that ends each of them
// is asked until nobody listens.
func TestAnswers(t *testing.T) {
	dir, l := place(t, "[]")
	info := HostInfo{Name: "h", PID: 7, Socket: filepath.Join(dir, "none.sock")}
	if there, err := Answers(t.Context(), info); there || err != nil {
		t.Errorf("without a socket: %v, %v", there, err)
	}
	info.Socket = l.Addr().String()
	var hangs *HangsError
	const short = 200 * time.Millisecond
	if there, err := answers(t.Context(), info, short); there || !errors.As(err, &hangs) || hangs.Host.PID != 7 {
		t.Errorf("a host that hangs: %v, %v", there, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Answers(ctx, info); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that gave up: %v", err)
	}
	c, err := l.Accept() // from who found that it hangs
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	answer(t, l, "HTTP/1.1 503 Busy\r\n\r\n")
	if there, err := Answers(t.Context(), info); !there || err != nil {
		t.Errorf("a host that answers: %v, %v", there, err)
	}
	done := make(chan struct{})
	go func() { // a process that is dying
		defer close(done)
		for range 5 {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
		_ = l.Close()
	}()
	if there, err := answers(t.Context(), info, time.Minute); there || err != nil {
		t.Errorf("a host that ends: %v, %v", there, err)
	}
	<-done
}
