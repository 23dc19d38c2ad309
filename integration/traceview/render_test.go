package traceview_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/metamcp/metamcp/integration/traceview"
	"github.com/metamcp/metamcp/messages"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))) {
		t.Errorf("%s differs; run with -update if that is meant. Got:\n%s", name, &got)
	}
}

func TestGolden(t *testing.T) {
	trace := read(t, sample().text(t))
	good, failed := trace.Find("1"), trace.Find("2")
	style := func(width int) traceview.Style { return traceview.Style{Width: width, Location: time.UTC} }
	sequence := func(r *traceview.Request, s traceview.Style) func(io.Writer) error {
		return func(w io.Writer) error { return traceview.WriteSequence(w, r, s) }
	}
	golden(t, "sequence-wide.txt", sequence(good, style(130)))
	golden(t, "sequence-80.txt", sequence(failed, style(80)))
	golden(t, "sequence-narrow.txt", sequence(good, style(50)))
	ascii := style(100)
	ascii.ASCII = true
	golden(t, "sequence-ascii.txt", sequence(failed, ascii))
	color := style(100)
	color.Color = true
	golden(t, "sequence-color.txt", sequence(failed, color))
	golden(t, "sequence-own.txt", sequence(trace.Find("0"), style(80)))
	golden(t, "list.txt", func(w io.Writer) error { return traceview.WriteList(w, trace.Requests, style(100)) })
	golden(t, "mermaid.txt", func(w io.Writer) error { return traceview.WriteMermaid(w, good) })
	golden(t, "version1.txt", func(w io.Writer) error {
		f, err := os.ReadFile(filepath.Join("testdata", "version1.jsonl"))
		if err != nil {
			return err
		}
		return traceview.WriteSequence(w, read(t, f).Find("4"), style(120))
	})
}

func TestLinesFitTheWidth(t *testing.T) {
	trace := read(t, sample().text(t))
	for width := 30; width < 200; width += 7 {
		var b bytes.Buffer
		if err := traceview.WriteSequence(&b, trace.Find("2"), traceview.Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		_, diagram, _ := strings.Cut(b.String(), "\n\n")
		for line := range strings.Lines(diagram) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
	}
}

// hostile are texts that some format would obey.
var hostile = []string{
	"\x1b[2J\x1b]0;owned\a", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a\nparticipant x as y\n%%{init: {}}%%",
	"end", "x;y:z#35;", "\u202egnp.exe", "\u2028\u2029", "a\r\nb", "\x00\x07\x9b31m", "ｗｉｄｅ😀e\u0301\u0301\u0301", "->>+a0: hi", "`$(id)`", "\"'&",
}

func TestHostileTexts(t *testing.T) {
	g := &generator{}
	g.start()
	for i, text := range hostile {
		g.call(uint64(i+1), text, text, text)
		g.records = append(g.records,
			messages.TraceRecord{V: 2, Time: epoch, Kind: text, Request: uint64(i + 1), To: text, Detail: text, Type: text},
			messages.TraceRecord{V: 2, Time: epoch, Kind: messages.TraceMessage, Request: uint64(i + 1), From: text, To: text + "2", Type: text, Before: text, After: "x", Outcome: text})
	}
	g.records = append(g.records, messages.TraceRecord{V: 2, Time: epoch, Kind: messages.TraceStart, Detail: strings.Join(hostile, " ")})
	for name, text := range renderAll(t, read(t, g.text(t))) {
		for _, r := range text {
			if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Errorf("%s holds %q", name, r)
				break
			}
			if name == "ascii" && r > 126 {
				t.Errorf("the ASCII diagram holds %q", r)
				break
			}
		}
		switch name {
		case "html":
			if n := strings.Count(text, "<script"); n != 2 || strings.Contains(text, "<img") {
				t.Errorf("the page has %d scripts", n)
			}
		case "mermaid":
			mermaidIsWellFormed(t, text)
		case "chrome", "json":
			if !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON", name)
			}
		}
	}
}

func mermaidIsWellFormed(t *testing.T, text string) {
	t.Helper()
	label := `([\pL\p{Nd} _\-./,()→µ…·~]|#\d+;)+`
	line := regexp.MustCompile(`^(sequenceDiagram|    participant a\d+ as ` + label + `|    Note over a\d+: ` + label + `|    a\d+(->>|-x)a\d+: ` + label + `)$`)
	keyword := regexp.MustCompile(`(?i)\bend\b`)
	for l := range strings.Lines(text) {
		if l = strings.TrimSuffix(l, "\n"); !line.MatchString(l) || keyword.MatchString(l) {
			t.Errorf("not a line of Mermaid: %q", l)
		}
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	trace := read(t, sample().text(t))
	var b bytes.Buffer
	if err := traceview.WriteHTML(&b, trace, trace.Requests); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if outside := regexp.MustCompile(`(?i)(src|href)=|@import|url\(|https?://`).FindAllString(strings.ReplaceAll(page, "http://www.w3.org/2000/svg", ""), -1); outside != nil {
		t.Errorf("the page asks for %q", outside)
	}
	if inline := regexp.MustCompile(`<[^>]* (style|on[a-z]+)=`).FindAllString(page, -1); inline != nil {
		t.Errorf("the policy would block %q", inline)
	}
	data := regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`).FindStringSubmatch(page)
	var held struct {
		Requests []struct {
			Name    string
			Slow    int
			Records [][]any
		}
	}
	if data == nil {
		t.Fatal("there is no data in the page")
	}
	if err := json.Unmarshal([]byte(data[1]), &held); err != nil {
		t.Fatal(err)
	}
	for i, r := range held.Requests {
		want := trace.Requests[i]
		if r.Name != want.Name || len(r.Records) != len(want.Records) || r.Records[r.Slow][4] != want.SlowestHop().Type {
			t.Errorf("request %s has %d records, slowest %v", r.Name, len(r.Records), r.Records[r.Slow])
		}
	}
}

func TestPageIsBounded(t *testing.T) {
	b := traceview.NewBuilder(traceview.Limits{})
	const requests, each = 12, 10_000
	for id := range requests {
		for range each {
			b.Add(messages.TraceRecord{V: 2, Time: epoch.Add(time.Duration(id) * time.Second), Kind: "noise", Request: uint64(id + 1), To: "metamcp"})
		}
	}
	trace := b.Trace()
	var page bytes.Buffer
	if err := traceview.WriteHTML(&page, trace, trace.Requests); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "the page holds the last 10 of 12 requests") {
		t.Error("the page does not say what it leaves out")
	}
}
