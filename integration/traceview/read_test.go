package traceview_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/traceview"
	"github.com/metamcp/metamcp/messages"
)

func read(tb testing.TB, text []byte) *traceview.Trace {
	tb.Helper()
	t, err := traceview.Read(bytes.NewReader(text), traceview.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// Cut at any byte, a trace loses the record that was cut and no other.
func TestCutAtEveryByte(t *testing.T) {
	g := &generator{}
	g.start()
	g.call(1, "demo", "écho", "ok") // cut also within a character
	text := g.text(t)
	whole := bytes.IndexByte(text, '\n')
	for n := 1; n <= len(text); n++ {
		records := bytes.Count(text[:n], []byte("\n"))
		if n == len(text) || text[n] == '\n' {
			records = bytes.Count(text[:min(n+1, len(text))], []byte("\n")) // only the line's end is missing
		}
		got, err := traceview.Read(bytes.NewReader(text[:n]), traceview.Limits{})
		if n < whole {
			if err == nil || !strings.Contains(err.Error(), "half a line") && n >= len(`{"v":`) {
				t.Fatalf("at byte %d: %v", n, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("at byte %d: %v", n, err)
		}
		if len(got.Records) != records {
			t.Fatalf("at byte %d: %d records, want %d", n, len(got.Records), records)
		}
		cut := text[n-1] != '\n' && n < len(text) && text[n] != '\n'
		if told := strings.Contains(strings.Join(got.Notes, " "), "is cut"); told != cut {
			t.Fatalf("at byte %d: notes %q", n, got.Notes)
		}
		if n%97 == 0 {
			renderAll(t, got)
		}
	}
}

func TestUnreadableLines(t *testing.T) {
	lines := strings.SplitAfter(string(sample().text(t)), "\n")
	n := len(lines) - 1 // the last is empty
	for _, test := range []struct {
		name, bad string
		lost      int // of the good records
		note      string
	}{
		{"cut", `{"v":2,"time":"2026-03` + "\n", 0, "1 line could not be read: line 4 is cut"},
		{"text", "hello\nworld\n", 0, "2 lines could not be read: line 4 is not JSON, line 5 is not JSON"},
		{"other JSON", `{"jsonrpc":"2.0"}` + "\n[]\n", 0, "2 lines could not be read: line 4 is no record of a trace, line 5 is no record of a trace"},
		{"wrong type", `{"v":2,"time":"2026-03-04T05:06:07Z","kind":"message","request":-1}` + "\n", 0, "line 4 is no record of a trace"},
		{"many", strings.Repeat("x\n", 9), 0, "9 lines could not be read: line 4 is not JSON, line 5 is not JSON, line 6 is not JSON, line 7 is not JSON, line 8 is not JSON, …"},
		{"too long", strings.Repeat("x", 2<<20) + "\n", 0, "line 4 is too long"},
		{"newer", strings.Repeat(`{"v":3,"time":[1],"kind":"message","request":"r1"}`+"\n", 12), 0, "12 records are of version 3, which this metamcp does not know; update it"},
		{"one newer", `{"v":4,"kind":"x"}` + "\n", 0, "1 record is of version 4, which this metamcp does not know; update it"},
		{"a host went on in half a line", `{"v":2,"time":"20`, 0, "line 4 is cut, and another record begins in it, which was read"},
		{"empty lines", "\n\r\n \n", 0, ""},
		{"NUL", "\x00\x00\x00\n", 0, "line 4 is not JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := read(t, []byte(strings.Join(lines[:3], "")+test.bad+strings.Join(lines[3:], "")))
			if len(got.Records) != n-test.lost {
				t.Errorf("%d records, want %d", len(got.Records), n-test.lost)
			}
			if notes := strings.Join(got.Notes, "\n"); !strings.Contains(notes, test.note) || test.note == "" && notes != "" {
				t.Errorf("notes %q, want %q", notes, test.note)
			}
		})
	}
}

func TestNoTrace(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "it is empty"},
		{"\n\n", "it is empty"},
		{`{"v":2,"ti`, "half a line"},
		{"    2.56ms          * metamcp/pool lease x\n   1ms  a → b Call\n", "trace for people"},
		{`{"mcpServers":{}}`, "configuration of MCP servers"},
		{`{"jsonrpc":"2.0","id":1}`, "JSON-RPC"},
		{`{"displayTimeUnit":"ns","traceEvents":[]}`, "Perfetto"},
		{`{"a":1}`, "other JSON"},
		{"<!DOCTYPE html>\n<p>", "HTML"},
		{"\x7fELF\x00\x01\x02", "binary"},
		{"hello", "other text"},
		{`{"v":7,"kind":"message"}` + "\n", "version 7"},
	} {
		_, err := traceview.Read(strings.NewReader(test.text), traceview.Limits{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v; want %q", test.text, err, test.want)
		}
	}
}

func TestLimitsKeepTheNewest(t *testing.T) {
	g := &generator{}
	g.start()
	for id := range uint64(200) {
		g.call(id+1, "demo", "echo", "ok")
	}
	all := len(g.records)
	for name, limits := range map[string]traceview.Limits{"records": {Records: 50}, "bytes": {Bytes: 20_000}} {
		got, err := traceview.Read(bytes.NewReader(g.text(t)), limits)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Records) > 100 || len(got.Records) < 20 {
			t.Errorf("%s: %d of %d kept", name, len(got.Records), all)
		}
		if got.Requests[len(got.Requests)-1].ID != 200 {
			t.Errorf("%s: the newest request is not there", name)
		}
		if !strings.Contains(strings.Join(got.Notes, " "), fmt.Sprintf("the oldest %d records were left out", all-len(got.Records))) {
			t.Errorf("%s: notes %q", name, got.Notes)
		}
	}
}

func zipped(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestRotatedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if _, err := traceview.ReadFiles(path, traceview.Limits{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path+".9") {
		t.Errorf("without a file: %v", err)
	}
	part := func(id uint64) []byte {
		g := &generator{}
		g.start()
		g.call(id, "demo", "echo", "ok")
		return g.text(t)
	}
	for name, text := range map[string][]byte{"": part(3), ".1": part(2), ".2.gz": zipped(t, part(1))} {
		if err := os.WriteFile(path+name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := traceview.ReadFiles(path, traceview.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Requests) != 3 || len(got.Runs) != 1 || len(got.Notes) != 0 {
		t.Errorf("%d requests of %d runs, notes %q", len(got.Requests), len(got.Runs), got.Notes)
	}
	// A damaged sibling costs only itself, and is named.
	damaged := zipped(t, part(1))
	if err := os.WriteFile(path+".2.gz", damaged[:len(damaged)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".3", []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err = traceview.ReadFiles(path, traceview.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(got.Notes, "\n")
	if got.Find("3") == nil || got.Find("2") == nil || !strings.Contains(notes, "t.jsonl.2.gz") || !strings.Contains(notes, "t.jsonl.3 line 1 is cut") {
		t.Errorf("%d requests, notes %q", len(got.Requests), notes)
	}
	// Only the rotated ones are left.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err = traceview.ReadFiles(path, traceview.Limits{}); err != nil || got.Find("2") == nil {
		t.Errorf("without the newest file: %v", err)
	}
}

// A file may hold several hosts, each of which counts from 1.
func TestSeveralRuns(t *testing.T) {
	first, second := &generator{}, &generator{}
	first.start()
	first.call(1, "demo", "echo", "ok")
	second.start()
	second.call(1, "github", "list_issues", "ok")
	got := read(t, append(first.text(t), second.text(t)...))
	if len(got.Requests) != 2 || got.Requests[0].Name != "1/1" || got.Requests[1].Name != "2/1" {
		t.Fatalf("%d requests", len(got.Requests))
	}
	for name, server := range map[string]string{"1": "github", "#1": "github", "1/1": "demo", "2/1": "github"} {
		if r := got.Find(name); r == nil || r.Server != server {
			t.Errorf("%s: %+v, want the one of %s", name, r, server)
		}
		want := 2
		if strings.Contains(name, "/") {
			want = 1
		}
		if n := got.Alike(name); n != want {
			t.Errorf("%s: %d requests are called so, want %d", name, n, want)
		}
	}
	for _, name := range []string{"", "x", "3/1", "x/1", "2", "-1", "99999999999999999999"} {
		if r := got.Find(name); r != nil {
			t.Errorf("%q found %s", name, r.Name)
		}
	}
}

// alternating are the lines of hosts that write to one file at a time.
func alternating(t *testing.T, hosts ...*generator) []byte {
	t.Helper()
	var text []byte
	for n := range hosts[0].records {
		for _, g := range hosts {
			one := generator{records: g.records[n : n+1]}
			text = append(text, one.text(t)...)
		}
	}
	return text
}

// ofProcess is a host with one call.
func ofProcess(pid int, id uint64, server string) *generator {
	g := &generator{span: 1000 * id, now: time.Duration(id) * time.Second}
	g.start()
	g.call(id, server, "echo", "ok")
	for i := range g.records {
		g.records[i].PID = pid
	}
	return g
}

// Hosts may also write to a file at a time: their processes tell them apart.
func TestHostsThatWriteAtATime(t *testing.T) {
	alone := read(t, ofProcess(7, 1, "demo").text(t)).Requests[0]
	path := filepath.Join(t.TempDir(), "t.jsonl")
	for name, text := range map[string][]byte{
		".1": alternating(t, ofProcess(7, 1, "demo"), ofProcess(8, 1, "github")),
		"": slices.Concat(
			alternating(t, ofProcess(8, 2, "github"), ofProcess(7, 2, "demo")), // the other one has turned it over
			ofProcess(7, 1, "files").text(t),                                   // a container's process has the same number each time
		),
	} {
		if err := os.WriteFile(path+name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := traceview.ReadFiles(path, traceview.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Requests) != 5 || len(got.Runs) != 3 {
		t.Errorf("%d requests of %d runs", len(got.Requests), len(got.Runs))
	}
	for name, server := range map[string]string{"1/1": "demo", "1/2": "demo", "2/1": "github", "2/2": "github", "3/1": "files"} {
		if r := got.Find(name); r == nil || r.Server != server || len(r.Records) != len(alone.Records) {
			t.Errorf("%s: %+v, want the one of %s with %d records", name, r, server, len(alone.Records))
		}
	}
}

func TestDroppedRecordsAreTold(t *testing.T) {
	g := sample()
	g.records = append(g.records, messages.TraceRecord{V: 2, Time: epoch, Kind: messages.TraceDropped, Count: 12})
	text := append(g.text(t), `{"v":1,"time":"2026-03-04T05:06:08Z","kind":"dropped","to":"trace","detail":"3 records found no room"}`...)
	if notes := strings.Join(read(t, text).Notes, " "); !strings.Contains(notes, "dropped 15 records") {
		t.Errorf("notes %q", notes)
	}
}

func FuzzRead(f *testing.F) {
	text := sample().text(f)
	f.Add(text[:1500]) // short ones are minimized sooner
	f.Add(text[1400:1800])
	f.Add([]byte(`{"v":1,"time":"2026-11-28T07:13:01.028Z","kind":"message","request":1,"from":"a","to":"a","type":"T","waitNs":9223372036854775807,"ranNs":-1,"panic":true}`))
	f.Add([]byte(`{"v":2,"time":"0001-01-02T00:00:00Z","kind":"message","request":1,"span":1,"parent":1,"to":""}` + "\n" + `{"v":2,"time":"9999-01-02T00:00:00Z","kind":"answer","request":1,"span":2,"parent":1}`))
	f.Add([]byte(`{"v":3,"kind":"x"}`))
	f.Add([]byte("\x00\x1f\x8b\n{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := traceview.Read(bytes.NewReader(text), traceview.Limits{Records: 100, LineBytes: 4096})
		if err != nil {
			return
		}
		renderAll(t, got)
	})
}

// renderAll writes a trace in every way and returns what was written.
func renderAll(tb testing.TB, t *traceview.Trace) map[string]string {
	tb.Helper()
	all := append(append([]*traceview.Request{}, t.Requests...), t.Own...)
	written := map[string]string{}
	into := func(name string, write func(io.Writer) error) {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		written[name] += b.String()
	}
	into("list", func(w io.Writer) error { return traceview.WriteList(w, t.Requests, traceview.Style{}) })
	into("html", func(w io.Writer) error { return traceview.WriteHTML(w, t, all) })
	into("chrome", func(w io.Writer) error { return traceview.WriteChrome(w, t, all) })
	into("json", func(w io.Writer) error { return traceview.WriteJSON(w, all, true, t.Notes) })
	for _, r := range all {
		into("mermaid", func(w io.Writer) error { return traceview.WriteMermaid(w, r) })
		for _, width := range []int{1, 60, 80, 160} {
			into("sequence", func(w io.Writer) error { return traceview.WriteSequence(w, r, traceview.Style{Width: width}) })
			into("ascii", func(w io.Writer) error {
				return traceview.WriteSequence(w, r, traceview.Style{Width: width, ASCII: true})
			})
		}
	}
	return written
}
