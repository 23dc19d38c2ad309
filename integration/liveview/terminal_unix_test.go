//go:build unix

package liveview

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/metamcp/metamcp/integration/testkit"
)

const patience = time.Minute

// terminal is a real pseudo terminal, with an emulator that shows what a person
// would see.
type terminal struct {
	t        *testing.T
	ptm, pts *os.File
	mu       sync.Mutex // of screen, except for its Read and Close
	screen   *vt.Emulator
	before   *term.State
}

// Write implements io.Writer: it shows what a program wrote.
func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.Write(p)
}

func (x *terminal) altScreen() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.IsAltScreen()
}

func newTerminal(t *testing.T, width, height int) *terminal {
	t.Helper()
	ptm, pts, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{t: t, ptm: ptm, pts: pts, screen: vt.NewEmulator(width, height)}
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(x, ptm) })        // ends when both ends of the terminal are closed
	copies.Go(func() { _, _ = io.Copy(ptm, x.screen) }) // answers to questions; ends with the emulator
	t.Cleanup(func() {
		_ = pts.Close()
		if input, ok := x.screen.InputPipe().(io.Closer); ok {
			_ = input.Close() // the emulator's own Close is no friend of its Read
		}
		_ = ptm.Close()
		copies.Wait()
		if t.Failed() {
			t.Logf("the screen at the end:\n%s", x)
		}
	})
	x.resize(width, height)
	if x.before, err = term.GetState(int(pts.Fd())); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *terminal) resize(width, height int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(width, height)
	x.mu.Unlock()
	if err := pty.Setsize(x.ptm, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}); err != nil {
		x.t.Fatal(err)
	}
}

// String is what is on the screen.
func (x *terminal) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var b strings.Builder
	for y := range x.screen.Height() {
		for i := range x.screen.Width() {
			cell := x.screen.CellAt(i, y)
			switch {
			case cell == nil || cell.Content == "" && cell.Width == 1:
				b.WriteByte(' ')
			default:
				b.WriteString(cell.Content)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// line is the first line of the screen that holds all of the texts, without
// runs of blanks; "" where there is none.
func (x *terminal) line(texts ...string) string {
	for line := range strings.SplitSeq(x.String(), "\n") {
		line = strings.Join(strings.Fields(line), " ")
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return line
		}
	}
	return ""
}

// await waits for a line with all of the texts.
func (x *terminal) await(texts ...string) {
	x.t.Helper()
	testkit.Eventually(x.t, patience, func() error {
		if x.line(texts...) == "" {
			return fmt.Errorf("no line with %q in\n%s", texts, x)
		}
		return nil
	})
}

func (x *terminal) keys(text string) {
	x.t.Helper()
	if _, err := x.ptm.WriteString(text); err != nil {
		x.t.Fatal(err)
	}
}

// resized tells a program the terminal's size, as the system does where it is
// the program's controlling terminal. That would hang it up when the program
// ends, so that its state could not be looked at.
func (x *terminal) resized(cmd *exec.Cmd, width, height int) {
	x.t.Helper()
	x.resize(width, height)
	if err := cmd.Process.Signal(syscall.SIGWINCH); err != nil {
		x.t.Fatal(err)
	}
}

// start runs metamcp in the terminal.
func (x *terminal) start(dir string, env []string, args ...string) *exec.Cmd {
	x.t.Helper()
	cmd := exec.CommandContext(x.t.Context(), testkit.Binary(x.t), args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "HOME="+dir, "TERM=xterm-256color", "NO_COLOR="), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.pts, x.pts, x.pts
	if err := cmd.Start(); err != nil {
		x.t.Fatal(err)
	}
	return cmd
}

// ended waits for the end of a program and checks that it left the terminal as
// it was.
func (x *terminal) ended(cmd *exec.Cmd, code int) {
	x.t.Helper()
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != code {
		x.t.Errorf("it ended with %v, want exit code %d", err, code)
	}
	after, err := term.GetState(int(x.pts.Fd()))
	if err != nil || fmt.Sprint(*after) != fmt.Sprint(*x.before) {
		x.t.Errorf("the terminal was %v and is %v (%v)", *x.before, after, err)
	}
	testkit.Eventually(x.t, patience, func() error {
		if x.altScreen() {
			return errors.New("the alternate screen is still shown")
		}
		return nil
	})
}

// colored tells whether any cell of the screen has a colour.
func (x *terminal) colored() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for y := range x.screen.Height() {
		for i := range x.screen.Width() {
			if cell := x.screen.CellAt(i, y); cell != nil && cell.Style.Fg != nil {
				return true
			}
		}
	}
	return false
}
