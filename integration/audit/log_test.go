package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

func TestWhatALineHolds(t *testing.T) {
	path, c := place(t), newClock()
	l := open(t, Options{Path: path, Name: "host", PID: 7, Now: c.now})
	l.Append(call(1))
	l.Append(Entry{
		Kind: KindProvision, Server: "git", Outcome: "PROVISION_DENIED", Args: json.RawMessage(`{"intent":"x"}`),
		Decision: &Decision{Decision: "denied", Source: "registry", Package: "@x/git", Version: "1.2.3", Confidence: math.NaN(), Gate: "namespace", Reason: "not allowed"},
	})
	long := strings.Repeat("ä", 5000)
	l.Append(Entry{Server: long, Tool: "\xff", Client: Client{Name: long}, Outcome: "rpc-error", Args: json.RawMessage("{broken")})
	l.Append(Entry{Time: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)})
	shut(t, l)
	if err := l.Close(t.Context()); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	l.Append(call(9))
	whole(t, path)
	all := records(t, path)
	if len(all) != 6 {
		t.Fatalf("%d entries", len(all))
	}
	want := `{"v":1,"seq":2,"time":"2026-01-02T03:04:05.000000006Z","host":{"pid":7,"name":"host"},"kind":"call","session":1,"client":{"name":"test","version":"1.0"},"request":1,"server":"files","tool":"read","argsHash":"` +
		all[1].ArgsHash + `","argsBytes":16,"outcome":"ok","durationMs":1.234,"resultBytes":99,"prev":"` + all[0].Hash + `","hash":"` + all[1].Hash + `"}`
	if string(all[1].Raw) != want {
		t.Errorf("line\n%s, want\n%s", all[1].Raw, want)
	}
	if d := all[2].Decision; d == nil || d.Gate != "namespace" || d.Confidence != 0 || all[2].Kind != KindProvision {
		t.Errorf("the decision: %+v", all[2])
	}
	if r := all[3]; len(r.Server) > maxName || len(r.Client.Name) > maxName || r.ArgsHash == "" || !r.Failed() {
		t.Errorf("a long entry: %s", r.Raw)
	}
	if r := all[4]; r.Kind != KindGap || r.Lost != 1 {
		t.Errorf("an entry that cannot be written: %s", r.Raw)
	}
	if all[0].Kind != KindStart || all[5].Kind != KindStop {
		t.Errorf("begins with %s and ends with %s", all[0].Kind, all[5].Kind)
	}
}

// TestTheStartIsFirst: a log that is opened for its first entry tells when the
// host began, which is before that.
func TestTheStartIsFirst(t *testing.T) {
	path, c := place(t), newClock()
	began := c.now().Add(-time.Minute)
	l := open(t, Options{Path: path, Now: c.now, Started: began})
	e := call(1)
	e.Time = began.Add(time.Second)
	l.Append(e)
	shut(t, l)
	all := records(t, whole(t, path).Path)
	if len(all) != 3 || all[0].Kind != KindStart || !all[0].Time.Equal(began) || !all[1].Time.After(all[0].Time) || !all[2].Time.After(all[1].Time) {
		t.Errorf("entries %+v, want a start at %v, then the call, then the stop", all, began)
	}
}

func TestArguments(t *testing.T) {
	path := place(t)
	written(t, Options{Path: path}, 2)
	written(t, Options{Path: path}, 1)
	far := place(t)
	written(t, Options{Path: far}, 1)
	all := records(t, path)
	one, two, again := all[1].ArgsHash, all[2].ArgsHash, all[5].ArgsHash
	if one == two || one != again || len(one) != 64 {
		t.Errorf("hashes %s, %s, %s; want equal ones for equal arguments alone, over a restart too", one, two, again)
	}
	if records(t, far)[1].ArgsHash == one {
		t.Error("another folder's log has the same hash: it has no key of its own")
	}
	// Digits alone may well stand in a hash or a time.
	if bytes.Contains(read(t, path), []byte("x1000")) {
		t.Error("an argument stands in the log")
	}

	plain := place(t)
	l := open(t, Options{Path: plain, PlainArgs: true, Scrub: func(a json.RawMessage) json.RawMessage {
		return bytes.ReplaceAll(a, []byte("SECRET"), []byte("***"))
	}})
	for _, args := range []string{"{\n \"a\": \"SECRET\"}", "{SECRET", `"` + strings.Repeat("x", maxPlainArgs) + `"`} {
		l.Append(Entry{Args: json.RawMessage(args)})
	}
	shut(t, l)
	whole(t, plain)
	all = records(t, plain)
	if got := string(all[1].Args); got != `{"a":"***"}` || all[1].ArgsHash != "" {
		t.Errorf("plain arguments %s", all[1].Raw)
	}
	if got := string(all[2].Args); got != `"{***"` {
		t.Errorf("arguments that are not JSON: %s", got)
	}
	if all[3].Args != nil || all[3].ArgsHash == "" || all[3].ArgsBytes != maxPlainArgs+2 {
		t.Errorf("long arguments: %.300s", all[3].Raw)
	}
}

func TestRotation(t *testing.T) {
	path, c := place(t), newClock()
	o := Options{Path: path, MaxBytes: 4000, MaxFiles: 5, Now: c.now}
	for range 5 { // over restarts
		written(t, o, 20)
	}
	r := whole(t, path)
	if len(r.Files) != 5 || r.FirstSeq < 50 || r.LastSeq < 110 {
		t.Errorf("report %+v", r)
	}
	for _, f := range r.Files {
		if n := len(read(t, f)); n > 5000 {
			t.Errorf("%s has %d bytes", f, n)
		}
	}
	if err := os.Remove(r.Files[0]); err != nil {
		t.Fatal(err)
	}
	if again, err := Verify(t.Context(), path); err != nil || again.Whole() {
		t.Errorf("the oldest file may go: %v", err)
	}

	old := place(t)
	l := open(t, Options{Path: old, MaxAge: time.Hour, Now: c.now})
	l.Append(call(1))
	testkit.Eventually(t, time.Minute, func() error {
		if n := len(rows(read(t, old))); n < 2 {
			return fmt.Errorf("%d lines", n)
		}
		return nil
	})
	c.pass(time.Hour)
	shut(t, l) // the stop entry is an hour later
	if r := whole(t, old); len(r.Files) != 2 || r.LastSeq != 4 {
		t.Errorf("by age: %+v", r)
	}
	c.pass(time.Hour) // over a restart
	written(t, Options{Path: old, MaxAge: time.Hour, Now: c.now}, 1)
	if r := whole(t, old); len(r.Files) != 3 {
		t.Errorf("by age, after a restart: %+v", r)
	}
	c.pass(-365 * 24 * time.Hour) // the clock went back
	written(t, Options{Path: old, MaxAge: time.Hour, Now: c.now}, 2)
	if r := whole(t, old); len(r.Files) != 4 {
		t.Errorf("with a file that begins after now: %+v", r)
	}
}

// A log whose goroutine is held up loses what finds no room and counts it.
func TestOverflow(t *testing.T) {
	path := place(t)
	held, free := make(chan struct{}), make(chan struct{})
	first := true
	var told []error
	l := open(t, Options{Path: path, Queue: 10, PlainArgs: true, OnProblem: func(err error) { told = append(told, err) },
		Scrub: func(a json.RawMessage) json.RawMessage {
			if first {
				first = false
				close(held)
				<-free
			}
			return a
		}})
	l.Append(call(0))
	<-held
	for i := range uint64(25) {
		l.Append(call(i))
	}
	close(free)
	testkit.Eventually(t, time.Minute, func() error {
		if r, err := Verify(t.Context(), path); err != nil || r.Lost == 0 {
			return fmt.Errorf("%+v, %w", r, err)
		}
		return nil
	})
	l.Append(call(99))
	shut(t, l)
	r := whole(t, path)
	if r.Lost != 15 || len(r.Gaps) != 1 || r.Gaps[0].Seq != 13 || r.Entries != 15 {
		t.Errorf("report %+v", r)
	}
	if len(told) != 1 || !strings.Contains(told[0].Error(), "15 entries") {
		t.Errorf("told %v", told)
	}
}

// Large arguments that wait are bounded by bytes too.
func TestOverflowOfBytes(t *testing.T) {
	path := place(t)
	held, free := make(chan struct{}), make(chan struct{})
	first := true
	l := open(t, Options{Path: path, PlainArgs: true, Scrub: func(json.RawMessage) json.RawMessage {
		if first {
			first = false
			close(held)
			<-free
		}
		return json.RawMessage("1")
	}})
	l.Append(call(0))
	<-held
	large := make(json.RawMessage, maxQueuedBytes/4)
	for range 6 {
		l.Append(Entry{Args: large})
	}
	close(free)
	shut(t, l)
	if r := whole(t, path); r.Lost != 2 {
		t.Errorf("report %+v", r)
	}
}

// A file that somebody takes away, empties or writes to does not stop the log,
// and shows.
func TestFileTakenAwayWhileOpen(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(path string) error
	}{
		{"removed", os.Remove},
		{"moved", func(path string) error { return os.Rename(path, path+".away") }},
		{"emptied", func(path string) error { return os.Truncate(path, 0) }},
		{"cut", func(path string) error { return os.Truncate(path, 700) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := place(t)
			problems := make(chan error, 1)
			l := open(t, Options{Path: path, syncEvery: 20 * time.Millisecond, OnProblem: func(err error) { problems <- err }})
			for i := range uint64(5) {
				l.Append(call(i))
			}
			testkit.Eventually(t, time.Minute, func() error {
				if h, err := readHead(path); err != nil || h == nil || h.Seq != 6 {
					return fmt.Errorf("head %+v, %w", h, err)
				}
				return nil
			})
			if err := c.do(path); err != nil {
				t.Fatal(err)
			}
			l.Append(call(6))
			select {
			case err := <-problems:
				if !strings.Contains(err.Error(), "somebody") {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("nobody was told")
			}
			l.Append(call(7))
			shut(t, l)
			if r, err := Verify(t.Context(), path); err != nil || r.Whole() {
				t.Errorf("it is said to be whole: %v", err)
			}
			if all := records(t, path); all[len(all)-1].Kind != KindStop || all[len(all)-2].Request != 7 {
				t.Errorf("the log did not go on: %s", all[len(all)-2].Raw)
			}
		})
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	if _, err := Open(Options{Path: "audit.jsonl"}); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative path: %v", err)
	}
	path := place(t)
	write(t, path+keySuffix, []byte("short"))
	if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "5 bytes") {
		t.Errorf("a short key: %v", err)
	}
	if err := os.Remove(path + keySuffix); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); err == nil {
		t.Error("a folder in the file's place")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	written(t, Options{Path: path}, 1) // nothing is held any more
	whole(t, path)
}

// TestFilesOfOthersAreLeftAlone: a typing error must not cost somebody a configuration.
// What was a log once is one, whoever spoilt it.
func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	path := place(t)
	const theirs = "{\n  \"mcpServers\": {}\n}"
	write(t, path, []byte(theirs))
	if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), "something else than an audit log") {
		t.Errorf("a configuration: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != theirs {
		t.Errorf("%q, %v", text, err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
		t.Errorf("%v, %v: more than the file is there", list, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	written(t, Options{Path: path}, 1)
	write(t, path, []byte(theirs))
	written(t, Options{Path: path}, 1)
}

// A nil log is one that is off.
func TestNilLog(t *testing.T) {
	var l *Log
	l.Append(call(1))
	if l.Path() != "" || l.Close(t.Context()) != nil {
		t.Error("a nil log does something")
	}
}

// A disk that hangs holds up Close no longer than its context.
func TestCloseGivesUp(t *testing.T) {
	held, free := make(chan struct{}), make(chan struct{})
	l := open(t, Options{Path: place(t), PlainArgs: true, Scrub: func(a json.RawMessage) json.RawMessage {
		close(held)
		<-free
		return a
	}})
	l.Append(call(1))
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	close(free)
}

func FuzzVerify(f *testing.F) {
	path := place(f)
	written(f, Options{Path: path}, 3)
	log, head := read(f, path), read(f, path+headSuffix)
	f.Add(log, head)
	f.Add(log[:len(log)/2], head)
	f.Add([]byte("\n\n{}\n{\"seq\":1}\n"), []byte("{}"))
	f.Add([]byte(`{"seq":18446744073709551615,"prev":""}`), []byte(`{"v":1,"seq":18446744073709551615,"size":-1}`))
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, log, head []byte) {
		path := place(t)
		write(t, path, log)
		write(t, path+headSuffix, head)
		before, err := Verify(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range Records(path) {
			if err != nil {
				t.Fatal(err)
			}
		}
		written(t, Options{Path: path}, 1)
		after, err := Verify(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if !before.Whole() && after.Whole() {
			t.Errorf("the next host covered up %+v", before.Breaks)
		}
	})
}

// BenchmarkAppend is what a caller pays: the log's goroutine, which would run
// on the other processors, is left out.
func BenchmarkAppend(b *testing.B) {
	l := &Log{wake: make(chan struct{}, 1)}
	l.o = Options{Path: place(b)}
	if err := l.o.complete(); err != nil {
		b.Fatal(err)
	}
	e := call(1)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		l.Append(e)
		if n%1000 == 999 {
			l.give(l.take())
		}
	}
}

func BenchmarkLine(b *testing.B) {
	enc := newEncoder(&Options{PID: 1}, make([]byte, keyBytes))
	prev := strings.Repeat("0", 64)
	for _, size := range []int{13, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			e := call(1)
			if size > len(e.Args) {
				text := strings.Repeat("The \"quick\" brown fox.\n", size/24)
				e.Args, _ = json.Marshal(map[string]string{"text": text}) // a string always marshals
			}
			var buf []byte
			b.SetBytes(int64(len(e.Args)))
			b.ReportAllocs()
			for b.Loop() {
				buf, _, _ = enc.line(buf[:0], &e, 5, prev)
			}
		})
	}
}
