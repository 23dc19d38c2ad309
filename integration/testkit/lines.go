package testkit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"
)

const (
	lineWait  = 3 * time.Minute // for an answer, on a loaded machine
	maxLine   = 160 << 20
	maxUnread = 200_000 // lines; more end the reading
)

// Lines speaks with a process line by line: what is sent is sent byte for byte,
// and what comes back is given back so. Sending and waiting may be done from
// several goroutines of a test. Each waiting looks through what nobody has taken
// yet, so this is for hundreds of requests at once; a test with thousands reads
// [Process.Stdout] itself.
type Lines struct {
	tb testing.TB
	in *os.File

	sendMu sync.Mutex
	mu     sync.Mutex
	got    []Line
	news   chan struct{} // closed and replaced at every line, and at the end
	end    error         // why there are no more lines; nil while there may be
}

// Lines takes the process's standard output for a line client. Its reader ends
// with the process.
func (p *Process) Lines(tb testing.TB) *Lines {
	tb.Helper()
	l := &Lines{tb: tb, in: p.stdin, news: make(chan struct{})}
	out := p.Stdout(tb)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.read(out)
	}()
	// Cleanups run in reverse order: this one is first, so it closes what the
	// reader reads.
	tb.Cleanup(func() {
		_ = out.Close()
		<-done
	})
	return l
}

func (l *Lines) read(out io.Reader) {
	scan := bufio.NewScanner(out)
	scan.Buffer(make([]byte, 0, 64<<10), maxLine)
	for scan.Scan() {
		l.mu.Lock()
		l.got = append(l.got, parse(bytes.Clone(scan.Bytes())))
		full := len(l.got) > maxUnread
		close(l.news)
		l.news = make(chan struct{})
		l.mu.Unlock()
		if full {
			l.stop(errors.New("there are too many unread lines"))
			return
		}
	}
	l.stop(errors.Join(io.EOF, scan.Err()))
}

func (l *Lines) stop(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = err
	close(l.news)
}

// Send writes one line; the line feed is added. A process that does not read
// fails the test after a minute.
func (l *Lines) Send(line []byte) {
	l.tb.Helper()
	l.sendMu.Lock()
	defer l.sendMu.Unlock()
	err := l.in.SetWriteDeadline(time.Now().Add(lineWait))
	if err == nil {
		_, err = l.in.Write(append(bytes.Clone(line), '\n'))
	}
	if err != nil {
		l.tb.Errorf("send %.200s: %v", line, err)
	}
}

// Match takes the first line that match accepts, whether it came already or is
// still to come, and leaves all others. It returns the reason where there is
// none within the given time.
func (l *Lines) Match(within time.Duration, match func(Line) bool) ([]byte, error) {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		for i, line := range l.got {
			if match(line) {
				l.got = append(l.got[:i], l.got[i+1:]...)
				l.mu.Unlock()
				return line.Raw, nil
			}
		}
		news, end := l.news, l.end
		l.mu.Unlock()
		if end != nil {
			return nil, end
		}
		select {
		case <-news:
		case <-deadline.C:
			return nil, errors.New("nothing of that kind came within " + within.String())
		}
	}
}

// Response returns the whole answer to the request with this id (in JSON: 1 or
// "a"), and fails the test where there is none within a minute.
func (l *Lines) Response(id string) []byte {
	l.tb.Helper()
	line, err := l.Match(lineWait, func(m Line) bool {
		return m.Method == "" && string(m.ID) == id
	})
	if err != nil {
		l.tb.Fatalf("wait for the answer to request %s: %v", id, err)
	}
	return line
}

// Notification returns the next notification or request of this method, and
// fails the test where there is none within a minute.
func (l *Lines) Notification(method string) []byte {
	l.tb.Helper()
	line, err := l.Match(lineWait, func(m Line) bool { return m.Method == method })
	if err != nil {
		l.tb.Fatalf("wait for %s: %v", method, err)
	}
	return line
}

// Call sends a request and returns its result or its error, byte for byte; the
// other one is nil. params is JSON.
func (l *Lines) Call(id, method, params string) (result, failure json.RawMessage) {
	l.tb.Helper()
	l.Send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + params + `}`))
	m := parse(l.Response(id))
	return m.Result, m.Error
}

// Handshake does what a legacy client does first and returns the result of
// initialize.
func (l *Lines) Handshake() json.RawMessage {
	l.tb.Helper()
	result, failure := l.Call(`"handshake"`, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"testkit","version":"1"}}`)
	if failure != nil {
		l.tb.Fatalf("initialize was refused: %s", failure)
	}
	l.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	return result
}

// Unread returns the lines that nobody has taken yet.
func (l *Lines) Unread() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Line(nil), l.got...)
}

// Line is one line from a process. The members are those of its JSON-RPC
// message, raw, and empty where the line is none.
type Line struct {
	Raw    []byte          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func parse(raw []byte) Line {
	var l Line
	if json.Unmarshal(raw, &l) != nil {
		l = Line{}
	}
	l.Raw = raw
	return l
}
