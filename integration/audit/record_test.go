package audit

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// asWritten is the record that the line of x is to hold, but for what depends on the
// line itself.
func asWritten(t *testing.T, x *Entry, host Host, seq uint64, prev string, line []byte) Record {
	t.Helper()
	var got Record
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if (got.ArgsHash != "" || got.Args != nil) != (len(x.Args) > 0) {
		t.Errorf("arguments of %d bytes are written as %q and %q", len(x.Args), got.ArgsHash, got.Args)
	}
	return Record{
		V: Version, Seq: seq, Time: x.Time.UTC(), Host: host, Kind: x.Kind, Session: x.Session, Client: x.Client,
		Request: x.Request, Server: x.Server, Tool: x.Tool, Method: x.Method, ArgsHash: got.ArgsHash, Args: got.Args, ArgsBytes: len(x.Args),
		Outcome: x.Outcome, Class: x.Class, DurationMs: float64(x.Duration.Microseconds()) / 1000, ResultBytes: x.ResultBytes,
		Retries: x.Retries, Redacted: x.Redacted, Decision: x.Decision, Lost: x.lost, Found: x.found, Oldest: x.oldest, Prev: prev, Hash: got.Hash,
	}
}

// TestLineIsThatOfTheLibrary holds the encoder to encoding/json's result.
func TestLineIsThatOfTheLibrary(t *testing.T) {
	when := time.Date(2026, 3, 4, 5, 6, 7, 8900, time.FixedZone("", 3600))
	host := Host{PID: 7, Name: "one \"host\""}
	for _, x := range []Entry{
		{Kind: KindCall, Time: when},
		{
			Kind: KindCall, Time: when, Session: 1, Client: Client{"a\\b", "1.0"}, Request: 2, Server: "files", Tool: "read", Args: json.RawMessage(`{ "a" : "x y" }`),
			Outcome: "rpc-error", Class: "overload", Duration: 3 * time.Second, ResultBytes: 5, Retries: 1, Redacted: map[string]int{"token": 2, "aws": 1},
		},
		{Kind: KindExecute, Time: when, Client: Client{Version: "2"}, Args: json.RawMessage(`{}`), Duration: math.MaxInt64},
		{Kind: KindCall, Time: when, Method: "resources/read\n\x01", Duration: 999 * time.Nanosecond, Args: json.RawMessage("not\nJSON")},
		{Kind: KindProvision, Time: when, Decision: &Decision{Decision: "denied", Confidence: 0.25, Reason: "no"}},
		{Kind: KindGap, Time: when, lost: 3},
		{Kind: KindStart, Time: when, found: "the end is missing"},
		{Kind: KindRotate, Time: when, oldest: 9},
	} {
		for _, plain := range []bool{false, true} {
			e := newEncoder(&Options{PID: host.PID, Name: host.Name, PlainArgs: plain}, make([]byte, keyBytes))
			before := []byte("the lines before\n")
			line, sum, err := e.line(before, &x, 5, strings.Repeat("0", 64))
			if err != nil {
				t.Fatal(err)
			}
			line, _ = bytes.CutPrefix(line, before)
			r := asWritten(t, &x, host, 5, strings.Repeat("0", 64), line)
			var want bytes.Buffer
			lib := json.NewEncoder(&want)
			lib.SetEscapeHTML(false)
			if err := lib.Encode(&r); err != nil {
				t.Fatal(err)
			}
			if string(line) != want.String() {
				t.Errorf("got  %swant %s", line, &want)
			}
			if _, intact, err := parse(bytes.TrimSpace(line)); !intact || err != nil || r.Hash != sum {
				t.Errorf("intact %v, %v, hash %s: %s", intact, err, sum, line)
			}
		}
	}
}

// FuzzLine writes what a client may send: every line is one line, can be read, and
// says what it was told.
func FuzzLine(f *testing.F) {
	f.Add("server", "tool", `{"a": 1}`, int64(1), false)
	f.Add("\xff<>&\u2028", "\x00\n", "{broken\n", int64(-1), true)
	f.Fuzz(func(t *testing.T, server, tool, args string, took int64, plain bool) {
		e := newEncoder(&Options{PID: 7, PlainArgs: plain}, make([]byte, keyBytes))
		x := Entry{Kind: KindCall, Time: time.Unix(1_700_000_000, 5), Server: server, Tool: tool, Args: json.RawMessage(args), Duration: time.Duration(took)}
		x.Bound()
		line, _, err := e.line(nil, &x, 1, "")
		if err != nil {
			t.Fatal(err)
		}
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		r, intact, err := parse(text)
		if !ended || bytes.ContainsAny(text, "\n\r") || !intact || err != nil {
			t.Fatalf("intact %v, %v: %q", intact, err, line)
		}
		if len([]rune(r.Server)) != len([]rune(x.Server)) || r.ArgsBytes != len(args) || r.DurationMs != float64(x.Duration.Microseconds())/1000 {
			t.Errorf("%+v became %s", x, line)
		}
	})
}
