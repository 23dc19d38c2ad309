//go:build unix

package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

func TestEcho(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "echo")
	body := []byte(`{"big":"` + strings.Repeat("y", 1<<20) + `"}`)
	for _, send := range []func() error{
		func() error { return p.Send([]byte(`{"method":"a"}`)) },
		func() error { return p.Send([]byte("{\"method\":\n\"b\"}\n")) },
		func() error { return p.Sendv([]byte(`{"method":"c","params":`), body, []byte("}\n")) },
		func() error { return p.Sendv([]byte("{\n"), []byte("\"method\":\"d\"\r\n"), []byte("\r}\r\n")) },
		func() error { return p.Sendv(nil, nil, nil) },
		func() error { return p.Sendv(nil, []byte(`{"method":"e"}`), nil) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"a", "b", "c", "d", "e"} {
		if got, _ := r.method(t, i); got != want {
			t.Errorf("frame %d is %q, want %q", i, got, want)
		}
	}
	r.until(t, "flush", func() bool { return r.flushes > 0 })
	if f := r.frames[2]; !bytes.Equal(f.Params, body) || f.Instance != 1 || f.Size != len(body)+len(`{"method":"c","params":}`) {
		t.Errorf("frame of %d bytes, instance %d: its params differ from what was sent", f.Size, f.Instance)
	}
	p.CloseInput()
	if e := r.exit(t); e.Code != 0 || e.Signal != "" || !e.Requested {
		t.Errorf("exit %+v, want a requested one with code 0", e)
	}
	if !errors.Is(r.eof[0], io.EOF) {
		t.Errorf("EOF(%v), want io.EOF", r.eof[0])
	}
	if err := p.Send([]byte("{}")); !errors.Is(err, ErrInputClosed) {
		t.Errorf("Send after CloseInput: %v, want ErrInputClosed", err)
	}
	eventually(t, "the tree is gone", func() bool { return !p.TreeAlive() })
}

// TestBreaksBecomeBlanks: many servers end a line at a carriage return as well, so that
// what stands behind one would be a message of its own.
func TestBreaksBecomeBlanks(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "echo")
	if err := p.Sendv([]byte("{\r\"method\":\"m\",\"params\":"), []byte("{\"a\":\r1,\n\"b\":\r\n2}"), []byte("\r}\n")); err != nil {
		t.Fatal(err)
	}
	r.method(t, 0)
	if got := string(r.frames[0].Params); got != `{"a": 1, "b":  2}` {
		t.Errorf("the server got %q", got)
	}
}

func TestOrderUnderLoad(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "echo")
	const n = 3000
	pad := strings.Repeat("z", 1000)
	for i := range n {
		line := []byte(`{"id":` + itoa(i) + `,"method":"m","params":"` + pad + `"}`)
		if err := p.Send(line); err != nil {
			t.Fatal(err)
		}
	}
	r.until(t, "all frames", func() bool { return len(r.frames) == n })
	for i, f := range r.frames {
		if string(f.ID) != itoa(i) {
			t.Fatalf("frame %d has id %s", i, f.ID)
		}
	}
	r.until(t, "flush", func() bool { return r.flushes > 0 && r.flushes <= n })
}

// TestCork: what is sent waits for the end of the burst, but for what is more than is
// held back, and for the end of the input.
func TestCork(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "echo")
	sent := 0
	send := func(pad int) {
		t.Helper()
		if err := p.Send([]byte(`{"id":` + itoa(sent) + `,"method":"m","params":"` + strings.Repeat("z", pad) + `"}`)); err != nil {
			t.Fatal(err)
		}
		sent++
	}
	waiting := func() int {
		p.out.mu.Lock()
		defer p.out.mu.Unlock()
		return len(p.out.queue)
	}
	corked := func(lines, pad int) *messages.Burst {
		t.Helper()
		b := new(messages.Burst)
		for range lines {
			p.Cork(b)
			send(pad)
		}
		return b
	}
	few := corked(3, 10)
	if waiting() == 0 {
		t.Error("three short messages of a burst are not held back")
	}
	few.End()
	if n := waiting(); n > 0 {
		t.Errorf("%d pieces wait behind the end of the burst", n)
	}
	r.until(t, "three frames", func() bool { return len(r.frames) == sent })

	many := corked(2*corkedPieces+1, 10)
	r.until(t, "all frames but the last", func() bool { return len(r.frames) >= sent-1 })
	many.End()
	large := corked(3, corkedBytes)
	r.until(t, "all large frames", func() bool { return len(r.frames) == sent })
	large.End()
	eventually(t, "nothing is left of them", func() bool {
		p.out.mu.Lock()
		defer p.out.mu.Unlock()
		return !p.out.running
	})

	// Nobody waits for the burst of somebody else.
	first := corked(2, 10)
	second := corked(1, 10)
	r.until(t, "the frames of the first burst", func() bool { return len(r.frames) == sent-1 })
	p.Cork(nil)
	r.until(t, "the frame of the second burst", func() bool { return len(r.frames) == sent })
	third := corked(1, 10)
	first.End() // writes that too
	if n := waiting(); n > 0 {
		t.Errorf("%d pieces wait", n)
	}
	second.End()
	third.End()

	last := corked(2, 10)
	p.CloseInput()
	if e := r.exit(t); e.Code != 0 || !e.Requested {
		t.Errorf("exit %+v, want a requested one with code 0", e)
	}
	last.End()
	p.Cork(new(messages.Burst))
	if err := p.Send([]byte("{}")); !errors.Is(err, ErrInputClosed) {
		t.Errorf("Send after CloseInput: %v, want ErrInputClosed", err)
	}
	if len(r.frames) != sent {
		t.Errorf("%d frames, want %d", len(r.frames), sent)
	}
	for i, f := range r.frames {
		if string(f.ID) != itoa(i) {
			t.Fatalf("frame %d has id %s", i, f.ID)
		}
	}
}

// TestBurstOutlivesItsChild: a burst may end when the child has, and when it was
// released.
func TestBurstOutlivesItsChild(t *testing.T) {
	for _, released := range []bool{false, true} {
		p, r := launch(t, newLauncher(t, nil), "no-read")
		r.method(t, 0)
		b := new(messages.Burst)
		p.Cork(b)
		if err := p.Send([]byte("{}")); err != nil {
			t.Fatal(err)
		}
		p.Signal(messages.SignalTerminate)
		r.exit(t)
		if released {
			eventually(t, "the tree is gone", func() bool { return !p.TreeAlive() })
			p.Release()
		}
		b.End()
		if err := p.Send([]byte("{}")); err == nil {
			t.Error("a child that is gone takes messages")
		}
		if p.out.queue != nil && released {
			t.Error("what was not written is kept")
		}
	}
}

func TestExits(t *testing.T) {
	for _, c := range []struct {
		mode, signal string
		code         int
		stderr       []string
	}{
		{"exit3", "", 3, []string{"boom: no key"}},
		{"abort", "SIGKILL", -1, nil},
	} {
		t.Run(c.mode, func(t *testing.T) {
			_, r := launch(t, newLauncher(t, nil), c.mode)
			e := r.exit(t)
			if e.Code != c.code || e.Signal != c.signal || e.Requested || strings.Join(e.Stderr, "|") != strings.Join(c.stderr, "|") {
				t.Errorf("exit %+v, want code %d, signal %q, stderr %q, not requested", e, c.code, c.signal, c.stderr)
			}
		})
	}
}

func TestSignals(t *testing.T) {
	t.Run("terminate", func(t *testing.T) {
		p, r := launch(t, newLauncher(t, nil), "no-read")
		r.method(t, 0)
		p.Signal(messages.SignalTerminate)
		if e := r.exit(t); e.Signal != "SIGTERM" || !e.Requested {
			t.Errorf("exit %+v, want a requested SIGTERM", e)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		p, r := launch(t, newLauncher(t, nil), "no-read")
		r.method(t, 0)
		if err := syscall.Kill(p.Pid(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		p.Signal(messages.SignalTerminate)
		if e := r.exit(t); e.Signal != "SIGTERM" {
			t.Errorf("exit %+v, want SIGTERM although the process was stopped", e)
		}
	})
	t.Run("deaf", func(t *testing.T) {
		p, r := launch(t, newLauncher(t, nil), "deaf")
		r.method(t, 0)
		p.CloseInput()
		p.Signal(messages.SignalTerminate)
		if !p.TreeAlive() {
			t.Fatal("the deaf process counts as gone")
		}
		p.Signal(messages.SignalKill)
		if e := r.exit(t); e.Signal != "SIGKILL" {
			t.Errorf("exit %+v, want SIGKILL", e)
		}
		eventually(t, "the tree is gone", func() bool { return !p.TreeAlive() })
	})
}

// TestGrandchildHoldsOutput: the exit is reported although the pipe stays open.
func TestGrandchildHoldsOutput(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "grandchild")
	_, grandchild := r.method(t, 0)
	p.CloseInput()
	if e := r.exit(t); e.Code != 0 {
		t.Errorf("exit %+v, want code 0", e)
	}
	if !errors.Is(r.eof[0], ErrOutputHeld) {
		t.Errorf("EOF(%v), want ErrOutputHeld", r.eof[0])
	}
	if !p.TreeAlive() || !running(grandchild) {
		t.Fatal("the grandchild is gone or not seen")
	}
	p.Signal(messages.SignalKill)
	eventually(t, "the tree is gone", func() bool { return !p.TreeAlive() })
	eventually(t, "the grandchild is gone", func() bool { return !running(grandchild) })
}

// TestGrandchildTalksOn: who writes on and on holds up no exit either.
func TestGrandchildTalksOn(t *testing.T) {
	_, r := launch(t, newLauncher(t, nil), "gossip")
	r.exit(t)
	if !errors.Is(r.eof[0], ErrOutputHeld) {
		t.Errorf("EOF(%v), want ErrOutputHeld", r.eof[0])
	}
}

// busy is an ear that is busy with the first frame until more is to be heard.
type busy struct {
	*recorder
	until func()
}

func (b *busy) Frame(f *messages.Frame) {
	b.recorder.Frame(f)
	if f.Method == "first" {
		b.until()
	}
}

// TestLastWords: what a process said before it exited is heard, although who listens was
// busy for longer than the stream may go on.
func TestLastWords(t *testing.T) {
	r, launched := newRecorder(), make(chan *Process, 1)
	p, err := newLauncher(t, nil).Launch(spec("last-words"), 1, &busy{r, func() {
		p := <-launched
		p.CloseInput()
		<-p.reaped
		for p.cutReason() == nil {
			runtime.Gosched()
		}
		raw, err := p.stdout.SyscallConn()
		for err == nil { // until the deadline, and nothing is read
			err = raw.Read(func(uintptr) bool { return false })
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	launched <- p
	defer p.Release()
	r.exit(t)
	if m, _ := r.method(t, 1); m != "last" || len(r.frames) != 2 {
		t.Errorf("%d frames, the last of them %q", len(r.frames), m)
	}
	if !errors.Is(r.eof[0], io.EOF) {
		t.Errorf("EOF(%v), want io.EOF", r.eof[0])
	}
}

func TestReleaseKills(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "grandchild")
	_, grandchild := r.method(t, 0)
	p.Release()
	eventually(t, "the grandchild is gone", func() bool { return !running(grandchild) })
	p.Signal(messages.SignalKill)
	p.Signal(messages.SignalTerminate)
	if err := p.Send([]byte("{}")); err == nil {
		t.Error("Send after Release succeeded")
	}
}

func TestCloseStdoutButLive(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "close-stdout")
	r.until(t, "EOF", func() bool { return len(r.eof) == 1 })
	if !errors.Is(r.eof[0], io.EOF) {
		t.Errorf("EOF(%v), want io.EOF", r.eof[0])
	}
	if !running(p.Pid()) || !p.TreeAlive() {
		t.Error("the process counts as gone")
	}
	p.CloseInput()
	r.exit(t)
}

func TestNoise(t *testing.T) {
	_, r := launch(t, newLauncher(t, nil), "noise")
	e := r.exit(t)
	var methods []string
	for _, f := range r.frames {
		methods = append(methods, f.Method)
	}
	if got := strings.Join(methods, " "); got != "one two three four" {
		t.Errorf("methods %q", got)
	}
	want := []string{"hello", `{"level":"info"}`, "{broken", strings.Repeat("n", prefixSize) + " … (cut)", "[]"}
	if strings.Join(r.noise, "\n") != strings.Join(want, "\n") {
		t.Errorf("noise %q", r.noise)
	}
	if len(e.Stderr) != 5 || e.Stderr[0] != "not JSON-RPC on stdout: hello" {
		t.Errorf("log %q", e.Stderr)
	}
}

// secretOfFake stands where a line that is no message is cut.
const secretOfFake = "hunter2hunter2hunter2"

func TestASecretWhereNoiseIsCut(t *testing.T) {
	d := childlog.NewFolder(t.TempDir(), childlog.Options{Scrub: func(line []byte) []byte {
		return bytes.ReplaceAll(line, []byte(secretOfFake), []byte("***"))
	}})
	_, r := launch(t, newLauncher(t, func(o *Options) { o.Logs = d }), "secret")
	r.exit(t)
	text, err := os.ReadFile(d.Path("fake-secret"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "n … (cut)") + strings.Count(string(text), "*** … (cut)") + strings.Count(string(text), "m … (cut)"); n != 4 || strings.Contains(string(text), secretOfFake[:4]) {
		t.Errorf("the log is %q", text)
	}
}

// Of a key that a server prints to stdout no line is shown, whatever stands between
// them, as of one on stderr.
func TestAKeyOfSeveralLinesOnStdout(t *testing.T) {
	secrets := scrub.New(nil)
	d := childlog.NewFolder(t.TempDir(), childlog.Options{
		Scrub: secrets.Bytes, NewScrub: func() childlog.Scrubber { return scrub.NewStream(func() *scrub.Set { return secrets }) },
	})
	_, r := launch(t, newLauncher(t, func(o *Options) { o.Logs = d }), "key")
	r.exit(t)
	text, err := os.ReadFile(d.Path("fake-key"))
	if err != nil {
		t.Fatal(err)
	}
	for where, got := range map[string]string{"the log": string(text), "what is told": strings.Join(r.noise, "\n")} {
		if strings.Contains(got, "MIIEp") || strings.Contains(got, "QUJD") || !strings.Contains(got, "using") || !strings.Contains(got, "MIIEafter") || !strings.Contains(got, "[REDACTED:private-key]") {
			t.Errorf("%s has %s", where, got)
		}
	}
	if m, _ := r.method(t, 0); m != "one" {
		t.Errorf("the message in between: %q", m)
	}
}

// hugeBlocks is how many MiB the lines of TestHugeLine have.
const hugeBlocks = 9

// TestHugeLine has a lower bound than is usual, since 64 MiB take a busy machine long.
func TestHugeLine(t *testing.T) {
	p, r := launch(t, newLauncher(t, func(o *Options) { o.MaxLine = (hugeBlocks - 1) << 20 }), "huge")
	if m, _ := r.method(t, 0); m != "after" {
		t.Errorf("first frame %q, want the one after the huge line", m)
	}
	if want := []string{`"7"`, `8`, ``}; !slices.Equal(r.large, want) {
		t.Errorf("TooLarge was called for %q, want %q", r.large, want)
	}
	p.CloseInput()
	r.exit(t)
}

// TestBrokenAnswers: text that is no UTF-8 is repaired; other answers that
// cannot be read are told with their ids, and all else is noise.
func TestBrokenAnswers(t *testing.T) {
	p, r := launch(t, newLauncher(t, func(o *Options) { o.Parse = strict }), "broken")
	if m, _ := r.method(t, 2); m != "after" {
		t.Errorf("the third frame is %q", m)
	}
	for i, want := range []string{`{"text":"a` + "\ufffd\ufffd" + `b"}`, `{"text":"` + "\ufffd" + `"}`} {
		if got := string(r.frames[i].Result); got != want {
			t.Errorf("result %q, want %q", got, want)
		}
	}
	if len(r.broken) != 3 || len(r.noise) != 2 {
		t.Fatalf("%d broken, noise %q", len(r.broken), r.noise)
	}
	for i, want := range []string{`3: {"result":{"text":"a\qb"},"id":3}: `, `4: {"id":4,"result":[[[`, `5: {"id":5,"result":{"text":"the rest`} {
		if !strings.HasPrefix(r.broken[i], want) {
			t.Errorf("broken %.80q, want %q…", r.broken[i], want)
		}
	}
	if why := "nested deeper"; !strings.Contains(r.broken[1], why) || len(r.broken[1]) > prefixSize+200 {
		t.Errorf("the second does not say %q, or is not cut", why)
	}
	said := 0
	for _, line := range p.Stderr() {
		if strings.Contains(line, "not UTF-8") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the repair was noted %d times: %q", said, p.Stderr())
	}
	p.CloseInput()
	r.exit(t)
}

// TestHalfAnAnswer: what a server did not write to its end answers nothing, whatever
// was to follow; a last line that is whole counts.
func TestHalfAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		mode    string
		maxLine int
		answers int
		noise   string
		large   []string
	}{
		{mode: "half", answers: 1, noise: `{"id":2,"result":{"text":"xxx`},
		{mode: "half", maxLine: readSize, answers: 1, large: []string{"2"}}, // it was too large before its end
		{mode: "half-large", maxLine: readSize, large: []string{""}},        // the id is not that of what came last
		{mode: "half-batch", answers: 1, noise: `[{"id":1,"result":{}},{"id":2,"result":{"text":"`},
		{mode: "half-repaired", maxLine: 40, noise: `{"id":2,"result":{"text":"`},
		{mode: "no-line-feed", answers: 1},
		{mode: "no-line-feed", maxLine: 33, large: []string{"1"}},
		{mode: "no-line-feed-large", maxLine: 3 * prefixSize, large: []string{"1"}},
	} {
		t.Run(fmt.Sprintf("%s of at most %d bytes", tt.mode, tt.maxLine), func(t *testing.T) {
			_, r := launch(t, newLauncher(t, func(o *Options) { o.Parse, o.MaxLine = strict, tt.maxLine }), tt.mode)
			r.exit(t)
			noise := strings.Join(r.noise, "")
			if len(r.frames) != tt.answers || len(r.broken) > 0 || !strings.HasPrefix(noise, tt.noise) || (noise == "") != (tt.noise == "") || !slices.Equal(r.large, tt.large) {
				t.Errorf("%d answers, broken %.100q, noise %.100q, too large %q", len(r.frames), r.broken, noise, r.large)
			}
		})
	}
}

// TestLogInJSON: lines of a log that have an id and an error or a result end no call;
// answers that are no whole message, and broken ones, do.
func TestLogInJSON(t *testing.T) {
	r, answered := answeredByNoMessage(t, "json-log")
	if want := []string{"7", "8", "9", "10"}; !slices.Equal(answered, want) || len(r.noise) != 7 {
		t.Errorf("broken %q, noise %q", r.broken, r.noise)
	}
}

// TestMessagesThatAreNoAnswer: what has the id of a request, and is neither an answer nor
// a request of the server's own, leaves no call waiting for another answer.
func TestMessagesThatAreNoAnswer(t *testing.T) {
	r, answered := answeredByNoMessage(t, "no-answer")
	if want := []string{"1", `"2"`, "3", "4", "5", "6", "7"}; !slices.Equal(answered, want) || len(r.noise) != 5 {
		t.Errorf("broken %q, noise %q", r.broken, r.noise)
	}
	for i, why := range []string{0: "neither a method", 3: `"method" must be`, 4: "not both", 5: "not both"} {
		if i < len(r.broken) && !strings.Contains(r.broken[i], why) {
			t.Errorf("%q does not say %q", r.broken[i], why)
		}
	}
}

// answeredByNoMessage returns the ids of the requests that what is no message was meant to
// answer, by what a fake that ends of itself has said.
func answeredByNoMessage(t *testing.T, mode string) (r *recorder, answered []string) {
	t.Helper()
	_, r = launch(t, newLauncher(t, func(o *Options) {
		o.Parse = func(line []byte, f *messages.Frame) error {
			m, err := jsonrpc.Parse(line)
			f.Method, f.Result, f.Error = m.Method, m.Result, m.Error
			return err
		}
	}), mode)
	r.exit(t)
	for _, b := range r.broken {
		id, _, _ := strings.Cut(b, ":")
		answered = append(answered, id)
	}
	return r, answered
}

// strict parses as the program does, but for the version.
func strict(line []byte, f *messages.Frame) error {
	if err := jsonrpc.Valid(line); err != nil {
		return err
	}
	return parse(line, f)
}

// TestRepairOverTheCap: what a repair would make too large is too large.
func TestRepairOverTheCap(t *testing.T) {
	_, r := launch(t, newLauncher(t, func(o *Options) { o.Parse = strict; o.MaxLine = 33 }), "broken")
	r.until(t, "the answer that was repaired over the cap", func() bool { return len(r.large) > 0 && r.large[0] == "1" })
}

func TestFloodOfStderr(t *testing.T) {
	dir := t.TempDir()
	p, r := launch(t, newLauncher(t, func(o *Options) { o.Logs = childlog.NewFolder(dir, childlog.Options{}) }), "flood")
	r.method(t, 0)
	eventually(t, "the last words", func() bool {
		last := p.Stderr()
		return len(last) == 20 && last[19] == "the last words"
	})
	var size int64
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if size == 0 || size > 3<<20 {
		t.Errorf("30 MB of stderr left %d bytes of logs, want some and at most 3 MiB", size)
	}
}

func TestWriteStall(t *testing.T) {
	l := newLauncher(t, func(o *Options) { o.WriteStall = 100 * time.Millisecond })
	p, r := launch(t, l, "no-read")
	r.method(t, 0)
	if err := p.Send(bytes.Repeat([]byte("x"), 4<<20)); err != nil {
		t.Fatal(err)
	}
	r.until(t, "EOF", func() bool { return len(r.eof) == 1 })
	if !errors.Is(r.eof[0], ErrWriteStalled) {
		t.Errorf("EOF(%v), want ErrWriteStalled", r.eof[0])
	}
	if err := p.Send([]byte("{}")); !errors.Is(err, ErrWriteStalled) {
		t.Errorf("Send: %v, want ErrWriteStalled", err)
	}
}

func TestBacklog(t *testing.T) {
	l := newLauncher(t, func(o *Options) { o.MaxQueue = 3 << 20 })
	p, r := launch(t, l, "late-read")
	r.method(t, 0)
	line := []byte(`{"method":"x","params":"` + strings.Repeat("q", 1<<20) + `"}`)
	sent := 0
	for ; ; sent++ {
		if err := p.Send(bytes.Clone(line)); err != nil {
			if !errors.Is(err, ErrBacklog) {
				t.Fatal(err)
			}
			break
		}
		if sent > 100 {
			t.Fatal("the queue has no bound")
		}
	}
	if err := syscall.Kill(p.Pid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it takes another", func() bool { return p.Send(line) == nil })
	r.until(t, "all frames", func() bool { return len(r.frames) == 1+sent+1 })
}

func TestBrokenInput(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "exit3")
	r.exit(t)
	if err := p.Send([]byte("{}")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Send to a process that is gone: %v, want EPIPE", err)
	}
}

func TestLaunchErrors(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	plain := filepath.Join(dir, "plain")
	for file, mode := range map[string]os.FileMode{script: 0o755, plain: 0o644} {
		if err := os.WriteFile(file, []byte("#!/no/such/interpreter\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	inCommand := func(err error) bool {
		var wrong *messages.ArgsInCommandError
		return errors.As(err, &wrong)
	}
	for _, c := range []struct {
		name string
		spec messages.ServerSpec
		is   []error
		isnt []error
		text string
	}{
		{"missing command", messages.ServerSpec{Command: "no-such-command", Env: []string{"PATH=/nowhere:/usr/bin"}},
			[]error{ErrNoCommand, exec.ErrNotFound, syscall.ENOENT}, []error{ErrNoCwd}, "/nowhere:/usr/bin"},
		{"missing path", messages.ServerSpec{Command: dir + "/none"}, []error{ErrNoCommand, syscall.ENOENT}, []error{ErrNoCwd}, dir + "/none"},
		{"missing cwd", messages.ServerSpec{Command: "sh", Cwd: dir + "/none"}, []error{ErrNoCwd, syscall.ENOENT}, []error{ErrNoCommand}, "working directory"},
		{"cwd is a file", messages.ServerSpec{Command: "sh", Cwd: plain}, []error{ErrNoCwd}, []error{ErrNoCommand}, "not a folder"},
		{"interpreter", messages.ServerSpec{Command: script}, []error{ErrNoCommand, syscall.ENOENT}, []error{ErrNoCwd}, "/no/such/interpreter"},
		{"not executable", messages.ServerSpec{Command: plain}, []error{syscall.EACCES}, []error{ErrNoCommand}, "chmod"},
		{"not executable in PATH", messages.ServerSpec{Command: "plain", Env: []string{"PATH=" + dir}}, []error{syscall.EACCES}, []error{ErrNoCommand}, "chmod"},
		{"folder", messages.ServerSpec{Command: dir}, []error{ErrNoCommand}, []error{ErrNoCwd}, "is a folder"},
		{"empty", messages.ServerSpec{}, []error{ErrNoCommand}, nil, "empty"},
		{"arguments", messages.ServerSpec{Command: "no-such-command --flag"}, []error{ErrNoCommand, syscall.ENOENT}, nil, "--flag"},
		{"arguments behind a path", messages.ServerSpec{Command: script + " --flag"}, []error{ErrNoCommand, syscall.ENOENT}, nil, "--flag"},
		{"a path with a blank", messages.ServerSpec{Command: dir + "/no such"}, []error{ErrNoCommand, syscall.ENOENT}, nil, "no such"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Name = "s"
			r := newRecorder()
			_, err := newLauncher(t, nil).Launch(&c.spec, 1, r)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.is {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			for _, not := range c.isnt {
				if errors.Is(err, not) {
					t.Errorf("%v is %v", err, not)
				}
			}
			if want := strings.HasPrefix(c.name, "arguments"); inCommand(err) != want {
				t.Errorf("that the arguments are in the command is among the causes of %v: %v", err, !want)
			}
			if !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), `"s"`) {
				t.Errorf("%q does not name %q and the server", err, c.text)
			}
			if len(r.eof)+len(r.exits) != 0 {
				t.Error("the ear was called")
			}
		})
	}
}

// TestRelativeCommand: PATH of the child, relative to the child's folder.
func TestRelativeCommand(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Args[0], filepath.Join(dir, "tool")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, path string }{{"./tool", ""}, {"tool", "."}, {"tool", dir}} {
		s := spec("pwd")
		s.Command, s.Cwd, s.Env = c.command, dir, append(s.Env, "PATH="+c.path)
		r := newRecorder()
		p, err := newLauncher(t, nil).Launch(s, 1, r)
		if err != nil {
			t.Errorf("%q with PATH %q: %v", c.command, c.path, err)
			continue
		}
		if got, _ := r.method(t, 0); got != dir {
			t.Errorf("%q with PATH %q ran in %q, want %q", c.command, c.path, got, dir)
		}
		p.Release()
	}
}

func TestOptions(t *testing.T) {
	if _, err := NewLauncher(Options{Logs: inMemory()}); err == nil {
		t.Error("a launcher without Parse was made")
	}
	if _, err := NewLauncher(Options{Parse: parse}); err == nil {
		t.Error("a launcher without Logs was made: nothing would take secrets out of what children say")
	}
}
