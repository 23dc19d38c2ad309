//go:build unix

package control_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/testkit"
)

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "new", "state")
	start(t, control.Options{Host: newFakeHost(), StateDir: dir, Name: "n"})
	for path, want := range map[string]fs.FileMode{
		dir: fs.ModeDir | 0o700, dir + "/hosts": fs.ModeDir | 0o700, dir + "/hosts/n.json": 0o600, dir + "/hosts/n.sock": fs.ModeSocket | 0o600,
	} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}

// A folder that others can enter, or that is something else, is not used.
func TestFolderMustBePrivate(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"open to others": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o755)) },
		"a link":         func(path string) error { return os.Symlink(os.TempDir(), path) },
		"a file":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		dir := t.TempDir()
		if err := prepare(filepath.Join(dir, "hosts")); err != nil {
			t.Fatal(err)
		}
		if s, err := control.Serve(control.Options{Host: newFakeHost(), StateDir: dir}); err == nil {
			t.Errorf("%s: no error", name)
			end(t, s)
		}
		if hosts, err := control.Hosts(dir); err == nil {
			t.Errorf("%s: it is taken for a folder of hosts, %v", name, hosts)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	servers := make([]*control.Server, 8)
	for i := range servers {
		all.Go(func() {
			s, err := control.Serve(control.Options{Host: newFakeHost(), StateDir: dir, Name: "Work"})
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = s
		})
	}
	all.Wait()
	got := names(t, dir)
	slices.Sort(got)
	if want := "Work Work-2 Work-3 Work-4 Work-5 Work-6 Work-7 Work-8"; strings.Join(got, " ") != want {
		t.Errorf("names %q, want %q", got, want)
	}
	for _, s := range servers {
		if s != nil {
			end(t, s)
		}
	}
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("running after the end: %q", got)
	}
	if s := start(t, control.Options{Host: newFakeHost(), StateDir: dir}); s.Info().Name != "host-"+strconv.Itoa(os.Getpid()) {
		t.Errorf("default name %s", s.Info().Name)
	}
}

// What is not ours stays, and its name counts as taken.
func TestForeignFilesStay(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hosts"), 0o700); err != nil {
		t.Fatal(err)
	}
	foreign := map[string]string{
		"hosts/a.sock":   "a plain file",
		"hosts/a-2.json": "not JSON",
		"hosts/a-3.json": `{"name": "another", "socket": "/tmp/x.sock"}`,
		"hosts/a-4.json": `{"name": "a-4", "pid": 1, "socket": "` + dir + `/important"}`,
		"important":      "a file that a-4 names",
	}
	for name, text := range foreign {
		put(t, dir, name, text)
	}
	s := start(t, control.Options{Host: newFakeHost(), StateDir: dir, Name: "a"})
	if s.Info().Name != "a-5" {
		t.Errorf("name %s, want a-5", s.Info().Name)
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "a-5" {
		t.Errorf("hosts %q", got)
	}
	end(t, s)
	for name, text := range foreign {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A host that was killed is found dead by its socket alone, whoever has its
// process id now; what it left is removed.
func TestKilledHostIsSwept(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"listing", "serving"} {
		t.Run(by, func(t *testing.T) {
			p := testkit.StartCommand(t, testkit.Command{Path: self, Env: []string{hostVariable + "=" + dir}})
			testkit.Eventually(t, patience, func() error {
				if got := names(t, dir); len(got) != 1 || got[0] != "victim" {
					return fmt.Errorf("running: %q", got)
				}
				return nil
			})
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, patience, func() error {
				c, err := net.Dial("unix", filepath.Join(dir, "hosts", "victim.sock"))
				if err == nil {
					c.Close()
					return errors.New("it still takes connections")
				}
				return nil
			})
			// The process id is that of a living process now: this one.
			path := filepath.Join(dir, "hosts", "victim.json")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			put(t, dir, "hosts/victim.json", strings.Replace(string(text), strconv.Itoa(p.PID), strconv.Itoa(os.Getpid()), 1))
			if by == "serving" {
				s := start(t, control.Options{Host: newFakeHost(), StateDir: dir, Name: "victim"})
				if s.Info().Name != "victim" {
					t.Errorf("name %s, want that of the dead host", s.Info().Name)
				}
				return
			}
			if got := names(t, dir); len(got) > 0 {
				t.Errorf("running: %q", got)
			}
			if left := files(t, dir); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// A host that was killed before it announced itself left a socket alone.
func TestOrphanIsSwept(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hosts"), 0o700); err != nil {
		t.Fatal(err)
	}
	open := map[string]*net.UnixListener{}
	for _, name := range []string{"dead", "alive"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "hosts", name+".sock")})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		open[name] = l
	}
	open["dead"].Close()
	defer open["alive"].Close()
	put(t, dir, "hosts/file.sock", "no socket")
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("hosts %q", got)
	}
	if left := strings.Join(files(t, dir), " "); left != "alive.sock file.sock" {
		t.Errorf("left: %s", left)
	}
}

// Where the path of the socket would be too long it lies in a short folder.
func TestLongPath(t *testing.T) {
	tmp, err := os.MkdirTemp("/tmp", "mm") //nolint:usetesting // The folder of a test is too long for a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	short := filepath.Join(tmp, "metamcp-"+strconv.Itoa(os.Getuid()))

	if err := os.Symlink(t.TempDir(), short); err != nil {
		t.Fatal(err)
	}
	if s, err := control.Serve(control.Options{Host: newFakeHost(), StateDir: dir}); err == nil {
		t.Error("a link was taken for the short folder")
		end(t, s)
	}
	if err := os.Remove(short); err != nil {
		t.Fatal(err)
	}

	h := newFakeHost()
	s := start(t, control.Options{Host: h, StateDir: dir, Name: "deep"})
	twin := start(t, control.Options{Host: h, StateDir: dir, Name: "deep"})
	if filepath.Dir(s.Info().Socket) != short || len(s.Info().Socket) > 103 || twin.Info().Name != "deep-2" {
		t.Errorf("socket %s, twin %s", s.Info().Socket, twin.Info().Name)
	}
	if info, err := os.Lstat(short); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	info, err := control.Find(dir, "deep")
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.Dial(info)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if st, err := c.Status(t.Context(), false); err != nil || st.Name != "deep" {
		t.Errorf("%+v, %v", st, err)
	}
	end(t, s)
	end(t, twin)
	if left, _ := os.ReadDir(short); len(left) > 0 {
		t.Errorf("left: %v", left)
	}

	t.Setenv("TMPDIR", "/tmp/"+strings.Repeat("t", 100))
	if s, err := control.Serve(control.Options{Host: h, StateDir: dir}); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("no place at all: %v", err)
		if err == nil {
			end(t, s)
		}
	}
}

func TestFind(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	check := func(ask, name, code string, says ...string) {
		t.Helper()
		info, err := control.Find(dir, ask)
		var e *control.Error
		switch {
		case code == "" && (err != nil || info.Name != name):
			t.Errorf("Find(%q) = %+v, %v", ask, info, err)
		case code != "" && (!errors.As(err, &e) || e.Code != code):
			t.Errorf("Find(%q): %v, want %s", ask, err, code)
		}
		for _, s := range says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("Find(%q): %v, want %q in it", ask, err, s)
			}
		}
	}
	check("", "", control.CodeNoHost, dir)
	start(t, control.Options{Host: newFakeHost(), StateDir: dir, Name: "one", Started: now.Add(-time.Hour)})
	check("", "one", "")
	check("two", "", control.CodeHostNotFound, `"two"`, "one (pid")
	start(t, control.Options{Host: newFakeHost(), StateDir: dir, Name: "two", Started: now})
	check("", "", control.CodeSeveralHosts, "2 hosts", "two (pid", "one (pid")
	check("one", "one", "")
	check(strconv.Itoa(os.Getpid()), "two", "") // the newest of one process
	if got := names(t, dir); strings.Join(got, " ") != "two one" {
		t.Errorf("order %q, want the newest first", got)
	}
	if _, err := control.Hosts(""); err == nil {
		t.Error("no state folder: no error")
	}
}
