package tracelog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

var when = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

func records() []messages.TraceRecord {
	return []messages.TraceRecord{
		{V: 2, Time: when, Kind: messages.TraceStart, Detail: "metamcp dev, pid 7"},
		{V: 2, Time: when, Kind: messages.TraceRequest, Request: 3, Server: "files", Tool: "read", Bytes: 12, Payload: json.RawMessage(`{"path":"/x"}`)},
		{
			V: 2, Time: when, Kind: messages.TraceMessage, Request: 3, Span: 9, Parent: 8, From: "metamcp/pool", To: "metamcp/pool/breaker/files~1",
			Type: "Granted", Before: "closed", After: "open", WaitNs: 1500, RanNs: 2500000,
		},
		{V: 2, Time: when, Kind: messages.TraceMessage, To: "metamcp/index", Type: "Sweep", Outcome: "panic"},
		{V: 2, Time: when, Kind: "noise", To: "metamcp/pool/breaker/a%2Fb~12/conn#1", Detail: "odd \x1b[31m \"text\"\u202e <b>ü\n"},
		{V: 2, Time: when, Kind: messages.TraceAnswer, Request: 3, Server: "files", Tool: "read", Outcome: "ok", RanNs: 1, Bytes: 5},
		{V: 2, Time: when, Kind: messages.TraceDropped, PID: 4711, Count: 4},
		{},
	}
}

// TestJSONIsThatOfTheLibrary holds the encoder to encoding/json's result.
func TestJSONIsThatOfTheLibrary(t *testing.T) {
	for _, r := range records() {
		var want bytes.Buffer
		lib := json.NewEncoder(&want)
		lib.SetEscapeHTML(false)
		if err := lib.Encode(&r); err != nil {
			t.Fatal(err)
		}
		if got := appendRecord(nil, &r, &clock{}); string(got) != want.String() {
			t.Errorf("got  %swant %s", got, &want)
		}
	}
}

// TestTimes holds the times of neighbouring records to encoding/json's.
func TestTimes(t *testing.T) {
	var got, want bytes.Buffer
	w := NewJSON(&got)
	for _, after := range []time.Duration{0, 1, 10, 123456789, 999999999, time.Second, time.Second + 1000, -time.Hour, 24 * time.Hour, 100000 * time.Hour, -40 * 365 * 24 * time.Hour} {
		r := messages.TraceRecord{Time: time.Unix(1_700_000_000, 0).UTC().Add(after), Kind: "k"}
		if err := w.WriteRecord(&r); err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&want).Encode(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil || got.String() != want.String() {
		t.Errorf("%v; got\n%swant\n%s", err, &got, &want)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("server", "detail\x00", uint64(1), int64(-2))
	f.Add("\xff<>&", "\u2028", uint64(0), int64(0))
	f.Fuzz(func(t *testing.T, server, detail string, n uint64, ran int64) {
		r := messages.TraceRecord{Time: when, Kind: detail, Server: server, Detail: detail, Request: n, RanNs: ran, From: server, Type: detail}
		lib, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		var got, want messages.TraceRecord
		line := appendRecord(nil, &r, &clock{})
		if err := errors.Join(json.Unmarshal(line, &got), json.Unmarshal(lib, &want)); err != nil || !reflect.DeepEqual(got, want) || bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("%v; got  %s, want %s", err, line, lib)
		}
	})
}

func TestText(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var b bytes.Buffer
		w := NewText(&b, colour)
		for _, r := range records() {
			if err := w.WriteRecord(&r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != len(records()) {
			t.Fatalf("%d lines for %d records:\n%s", len(lines), len(records()), b.String())
		}
		for i, want := range map[int]string{
			1: "▶ files/read", 2: "pool → files~1  Granted", 3: "PANIC", 4: "a%2Fb~12/conn#1  noise", 5: "◀ files/read", 6: "dropped",
		} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("line %d: %q is not in %q", i, want, lines[i])
			}
		}
		if strings.ContainsAny(b.String(), "\u202e") || !colour && strings.Contains(b.String(), "\x1b") || colour && strings.Contains(lines[4], "\x1b[31m \"") {
			t.Errorf("what a child said moves the cursor:\n%q", b.String())
		}
		if colour != strings.Contains(lines[5], green) {
			t.Errorf("colour %v: %q", colour, lines[5])
		}
		if !strings.Contains(lines[2], "[closed → open]  wait 1.5µs  ran 2.5ms") {
			t.Errorf("times and states: %q", lines[2])
		}
	}
}

// whole is a writer that wants whole lines.
type whole struct{ t *testing.T }

func (w whole) Write(text []byte) (int, error) {
	if !bytes.HasSuffix(text, []byte("\n")) {
		w.t.Errorf("a line is divided at …%q", text[max(0, len(text)-20):])
	}
	return len(text), nil
}

func TestTextDoesNotSteer(t *testing.T) {
	var b bytes.Buffer
	w := NewText(&b, false)
	if err := w.WriteRecord(&messages.TraceRecord{Time: when, Kind: "noise", Detail: "a\u2028b\u202ec\u009bd"}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "a·b·c·d\n") {
		t.Errorf("%q", &b)
	}
}

// Between two writes somebody else may write to the same file.
func TestTextWritesWholeLines(t *testing.T) {
	w := NewText(whole{t}, false)
	for n := range 500 {
		r := messages.TraceRecord{Time: when, Kind: "noise", Detail: strings.Repeat("x", 37*n)}
		if err := w.WriteRecord(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestFilter(t *testing.T) {
	all := records()
	for _, tt := range []struct {
		conditions []string
		want       []int // beside start and dropped, 0 and 6
	}{
		{nil, []int{1, 2, 3, 4, 5, 7}},
		{[]string{"server=files"}, []int{1, 2, 5}},
		{[]string{"server=a/b"}, []int{4}},
		{[]string{"server=f*", "server=a?b"}, []int{1, 2, 4, 5}},
		{[]string{"actor=*conn#*"}, []int{4}},
		{[]string{"actor=metamcp/pool"}, []int{2}},
		{[]string{"type=Granted", "type=answer"}, []int{2, 5}},
		{[]string{"request=3", "type=Granted"}, []int{2}},
		{[]string{"request=#4"}, nil},
		{[]string{"errors", ""}, []int{3, 4}},
	} {
		f, err := ParseFilter(tt.conditions)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for i := range all {
			if f.Wants(&all[i]) && i != 0 && i != 6 {
				got = append(got, i)
			}
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q lets %v pass, want %v", tt.conditions, got, tt.want)
		}
		if !f.Wants(&all[0]) || !f.Wants(&all[6]) {
			t.Errorf("%q holds back records of the trace itself", tt.conditions)
		}
	}
	for _, bad := range []string{"server", "server=", "actor=[", "request=x", "speed=fast"} {
		if _, err := ParseFilter([]string{bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func openAppend(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// read returns the kinds in a file, and fails where a line is no record.
func read(t *testing.T, path string) (kinds []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		var r messages.TraceRecord
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			kinds = append(kinds, "broken")
			continue
		}
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// TestFilesOfOthersAreLeftAlone: a typing error must not cost somebody a configuration.
func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	const theirs = "{\n  \"mcpServers\": {}\n}"
	if err := os.WriteFile(path, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := OpenFile(path, "me", 0, openAppend); err == nil || !strings.Contains(err.Error(), "something else than a trace") {
		t.Errorf("%v, %v", f, err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != theirs {
		t.Errorf("%q, %v", text, err)
	}
}

func TestFileTurnsOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	const limit = 2000
	f, err := OpenFile(path, "me", limit, openAppend)
	if err != nil {
		t.Fatal(err)
	}
	const total = 400
	for i := range total {
		if err := f.WriteRecord(&messages.TraceRecord{V: 2, Time: when, Kind: fmt.Sprintf("k%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	next := total - 1 // counted down from the newest
	for i := range KeepFiles + 1 {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > limit+200 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
		kinds := read(t, name)
		if kinds[0] != messages.TraceStart {
			t.Errorf("%s begins with %s", name, kinds[0])
		}
		for j := len(kinds) - 1; j > 0; j-- {
			if want := fmt.Sprintf("k%d", next); kinds[j] != want {
				t.Fatalf("%s has %s, want %s", name, kinds[j], want)
			}
			next--
		}
	}
	if _, err := os.Stat(fmt.Sprintf("%s.%d", path, KeepFiles+1)); err == nil {
		t.Error("more files are kept than shall be")
	}
}

func TestFileGoesOnAfterACut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(`{"v":2,"kind":"whole"}`+"\n"+`{"v":2,"ki`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path, "me", 0, openAppend)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.WriteRecord(&messages.TraceRecord{Kind: "next"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(read(t, path), " "); got != "whole broken start next" {
		t.Errorf("the file holds %s", got)
	}
}

// Whoever reads the file can tell its hosts apart, which count their requests alike.
func TestRecordsOfAFileNameTheirProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	f, err := OpenFile(path, "me", 0, openAppend)
	if err != nil {
		t.Fatal(err)
	}
	shared := messages.TraceRecord{Kind: "next"}
	if err := errors.Join(f.WriteRecord(&shared), f.Close()); err != nil || shared.PID != 0 {
		t.Fatalf("the record is %+v, %v", shared, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if want := fmt.Sprintf(`,"pid":%d`, os.Getpid()); !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
}

func BenchmarkWriteRecord(b *testing.B) {
	r := records()[2]
	w := NewJSON(io.Discard)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.WriteRecord(&r); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTwoHostsWriteOneFile has two writers share a file, as two hosts with one
// configuration do. No line is lost or torn, and both turn over together.
func TestTwoHostsWriteOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	const limit = 1 << 20
	var hosts [2]*File
	for i := range hosts {
		f, err := OpenFile(path, fmt.Sprint("host ", i), limit, openAppend)
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = f
	}
	const each = 3000
	done := make(chan error, len(hosts))
	for i, f := range hosts {
		go func() {
			for n := range each {
				r := messages.TraceRecord{V: 2, Time: when, Kind: "wanted", Count: uint64(n), Detail: strings.Repeat("x", 200*(i+1))}
				if err := f.WriteRecord(&r); err != nil {
					done <- err
					return
				}
				if n%100 == 0 {
					if err := f.Flush(); err != nil {
						done <- err
						return
					}
				}
			}
			done <- f.Close()
		}()
	}
	for range hosts {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	wanted := 0
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, ".lock") })
	for _, name := range files {
		for _, kind := range read(t, name) {
			switch kind {
			case "wanted":
				wanted++
			case messages.TraceStart:
			default:
				t.Errorf("%s has a %s line", name, kind)
			}
		}
		if info, err := os.Stat(name); err != nil || info.Size() > 2*limit {
			t.Errorf("%s has %d bytes, %v", name, info.Size(), err)
		}
	}
	if wanted != len(hosts)*each {
		t.Errorf("%d records of %d", wanted, len(hosts)*each)
	}
}
