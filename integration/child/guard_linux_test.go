package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/watchdog"
)

// TestHostKilledWhileItStartsChildren: a host that dies between the start of a
// process and the moment it puts it on record, its first one included, leaves
// nothing; together with its watchdog, nothing that the next start does not
// find.
func TestHostKilledWhileItStartsChildren(t *testing.T) {
	for _, c := range []struct {
		name string
		adds int // the host dies in this call of Add, of twenty
		both bool
	}{
		{"at the first", 1, false},
		{"at the seventh", 7, false},
		{"with its watchdog at the first", 1, true},
		{"with its watchdog at the seventh", 7, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, state := NewHostID(), t.TempDir()
			host := exec.Command(os.Args[0])
			host.Env = append(os.Environ(), fakeVar+"=host", hostVar+"="+id, stateVar+"="+state,
				addsVar+"="+strconv.Itoa(c.adds), bothVar+"="+strconv.FormatBool(c.both))
			host.Stderr = os.Stderr
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				for _, p := range ofHost(t, id) {
					proctree.Kill(p)
				}
			})
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatalf("the host has started nothing: %v", err)
			}
			_ = host.Wait()
			var child, dog int
			if _, err := fmt.Sscan(line, &child, &dog); err != nil {
				t.Fatal(err)
			}
			if c.both {
				if err := syscall.Kill(dog, syscall.SIGKILL); err != nil {
					t.Fatalf("the watchdog: %v", err)
				}
				if !running(child) {
					t.Fatal("the child ended by itself: nothing is tested")
				}
				if _, err := watchdog.EndLeftovers(state); err != nil {
					t.Error(err)
				}
				if left, err := filepath.Glob(filepath.Join(state, "run", "*")); err != nil || len(left) != 0 {
					t.Errorf("journals left: %v, %v", left, err)
				}
			}
			eventually(t, "all that was started is gone", func() bool { return !running(child) && len(ofHost(t, id)) == 0 })
		})
	}
}

// ofHost are the processes that carry the marker of a host.
func ofHost(t testing.TB, id string) []proctree.Process {
	t.Helper()
	snap, err := proctree.Scan(0)
	if err != nil {
		t.Fatal(err)
	}
	return snap.Tree(func(p *proctree.Process) bool { return proctree.OfHost(p.Marker, id) })
}

// What a host of the test is told.
const (
	hostVar  = "METAMCP_TEST_HOST"
	stateVar = "METAMCP_TEST_STATE"
	addsVar  = "METAMCP_TEST_ADDS"
	bothVar  = "METAMCP_TEST_BOTH"
)

// doomed is a guard under which the host dies, as by SIGKILL at the worst
// moment: a process runs and is not on record.
type doomed struct {
	*watchdog.Host
	left chan struct{} // one for each Add that is survived
	both bool
}

func (d *doomed) Add(pid int, start uint64, marker string) {
	select {
	case <-d.left:
		d.Host.Add(pid, start, marker)
		return
	default:
	}
	dog := d.PID()
	if d.both {
		// Killed here, it could be replaced before this host is dead too. The
		// test kills it; stopped, it notices nothing until then.
		_ = syscall.Kill(dog, syscall.SIGSTOP)
	}
	if _, err := fmt.Println(pid, dog); err != nil {
		panic(err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

func init() { moreFakes["host"], moreFakes["mute"] = playHost, playMute }

// playMute is a server that nothing but SIGKILL ends: not even that its host
// is gone before it has said a word.
func playMute() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGPIPE)
	_, _ = io.Copy(io.Discard, os.Stdin)
	select {}
}

// playHost is a host that starts twenty children at once and dies of it.
func playHost() {
	adds, err := strconv.Atoi(os.Getenv(addsVar))
	if err != nil {
		panic(err)
	}
	d := &doomed{
		Host: watchdog.New(watchdog.Options{HostID: os.Getenv(hostVar), StateDir: os.Getenv(stateVar), Report: func(err error) { panic(err) }}),
		left: make(chan struct{}, adds), both: os.Getenv(bothVar) == "true",
	}
	for range adds - 1 {
		d.left <- struct{}{}
	}
	l, err := NewLauncher(Options{Parse: parse, Logs: inMemory(), Guard: d})
	if err != nil {
		panic(err)
	}
	for i := range 20 {
		go func() {
			if _, err := l.Launch(spec("mute"), uint64(i), newRecorder()); err != nil {
				panic(err)
			}
		}()
	}
	select {}
}
