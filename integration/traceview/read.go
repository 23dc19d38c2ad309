package traceview

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/metamcp/metamcp/messages"
)

// Limits bound what reading a trace may cost. The zero value means the
// defaults.
type Limits struct {
	// Records is how many are kept; of more, the newest. Default 2 million.
	Records int
	// Bytes is about how much memory they may take; of more, the newest are
	// kept. Default 512 MiB.
	Bytes int64
	// LineBytes is the longest line that is read; a longer one is skipped and
	// counted. Default 1 MiB.
	LineBytes int
}

const (
	defaultRecords   = 2_000_000
	defaultBytes     = 512 << 20
	defaultLineBytes = 1 << 20
)

func (l Limits) orDefaults() Limits {
	if l.Records <= 0 {
		l.Records = defaultRecords
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.LineBytes <= 0 {
		l.LineBytes = defaultLineBytes
	}
	return l
}

// Read reads one trace. A line that cannot be read never fails it: it is
// counted, and [Trace.Notes] tells. It fails where r holds no record at all,
// and says what r seems to hold instead.
func Read(r io.Reader, limits Limits) (*Trace, error) {
	b := NewBuilder(limits)
	if err := b.Read(r, ""); err != nil {
		return nil, err
	}
	return b.finish("the trace")
}

// Read adds all records of r. Name tells the file in notes; "" where there is
// only one. It fails where r fails before it gave a record; a later failure is
// noted.
func (b *Builder) Read(r io.Reader, name string) error {
	b.source = name
	b.sources++
	lines := bufio.NewReaderSize(r, 64<<10)
	before := b.taken
	for n := 1; ; n++ {
		line, whole, err := readLine(lines, b.limits.LineBytes)
		if len(line) > 0 {
			b.line(line, n, whole)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			if b.taken == before {
				return fmt.Errorf("read %s: %w", orTrace(name), err)
			}
			b.problems.notes = append(b.problems.notes, fmt.Sprintf("%s ends early, after line %d: %v", orTrace(name), n, err))
			return nil
		}
	}
}

func orTrace(name string) string {
	if name == "" {
		return "the trace"
	}
	return name
}

// readLine returns the next line without its end, and whether it is whole: of
// one longer than limit only the beginning is kept. An error comes with what
// was read before it.
func readLine(r *bufio.Reader, limit int) (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := r.ReadSlice('\n')
		if room := limit - len(line); len(part) > room+1 {
			part, whole = part[:max(room, 0)], false
		}
		if whole || len(line) < limit {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSpace(line), whole, err
	}
}

// wire is a line of either version.
type wire struct {
	messages.TraceRecord
	Panic bool `json:"panic"` // of version 1
}

// versionOf is what can be read of a line of a version that is not known yet.
type versionOf struct {
	V    int    `json:"v"`
	Kind string `json:"kind"`
}

func (b *Builder) line(line []byte, number int, whole bool) {
	if !whole {
		b.problems.line(b.source, number, "is too long")
		b.hint(line)
		return
	}
	r, newer, problem := parse(line)
	if problem == "is not JSON" || problem == "is cut" {
		// A host that was killed leaves half a line, and the next one that
		// appends to the file goes on in it.
		if i := bytes.LastIndex(line, []byte(`{"v":`)); i > 0 {
			if second, _, p := parse(line[i:]); p == "" {
				b.Add(second)
				problem = "is cut, and another record begins in it, which was read"
			}
		}
	}
	switch {
	case newer > 0:
		b.problems.newer(newer)
	case problem != "":
		b.problems.line(b.source, number, problem)
		b.hint(line)
	default:
		b.Add(r)
	}
}

// parse reads one line. It returns the version where that is newer than this
// package knows, and else what is wrong with the line; "" for nothing.
func parse(line []byte) (r messages.TraceRecord, newer int, problem string) {
	var w wire
	err := json.Unmarshal(line, &w)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		if int(syntax.Offset) >= len(line) && line[0] == '{' {
			return r, 0, "is cut"
		}
		return r, 0, "is not JSON"
	}
	var v versionOf
	if (err != nil || w.V > messages.TraceVersion) && json.Unmarshal(line, &v) == nil && v.V > messages.TraceVersion && v.Kind != "" {
		return r, v.V, ""
	}
	if err != nil || w.V < 1 || w.Kind == "" || w.Time.IsZero() {
		return r, 0, "is no record of a trace"
	}
	if w.Panic && w.Outcome == "" {
		w.Outcome = outcomePanic
	}
	return w.TraceRecord, 0, ""
}
