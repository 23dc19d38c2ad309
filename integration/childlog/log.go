package childlog

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// tailLines and tailLine bound what is kept in memory.
	tailLines = 20
	tailLine  = 500
	stamp     = "2006-01-02T15:04:05.000Z"
	cutMark   = " … (cut)"
)

// Log takes the output of one instance of a server. One goroutine writes, another may
// tell of other lines, any may read.
type Log struct {
	folder *Folder
	file   *file // nil: memory only
	label  string
	scrub  Scrubber // of the goroutine that writes
	other  Scrubber // of the goroutine that calls Line

	partial []byte // a line whose end has not come yet, at most maxLine and margin
	cutting bool   // the rest of the current line is over the bound

	mu   sync.Mutex
	tail [][]byte // a ring once it is full
	next int
	// reason is the last line that says why a runtime gave up: a dump of stacks
	// after it is longer than the ring. since counts the lines after it.
	reason []byte
	since  int
	closed bool
}

// Write takes the next bytes of the stream. It always takes all of them and
// never returns an error.
func (l *Log) Write(p []byte) (int, error) {
	taken := len(p)
	p = l.skip(p)
	now := l.folder.now().UTC()
	var out []byte
	lines := 0
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		piece := p
		if i >= 0 {
			piece, p = p[:i], p[i+1:]
		} else {
			p = nil
		}
		if !l.cutting {
			if free := maxLine + margin - len(l.partial); len(piece) > free {
				piece, l.cutting = piece[:free], true
			}
			if i < 0 || len(l.partial) > 0 {
				l.partial = append(l.partial, piece...)
				piece = l.partial
			}
		} else {
			piece = l.partial
		}
		if i < 0 {
			break
		}
		out = l.line(out, l.scrub.Line, piece, l.cutting, now)
		lines++
		l.partial, l.cutting = l.partial[:0], false
	}
	if len(l.partial) == 0 {
		l.partial = nil
	}
	l.flush(out, lines)
	return taken, nil
}

// skip leaves out, in a flood, all lines of p that neither the file will take
// nor the memory keep: taking secrets out of each of them would cost more than the
// child that writes them. The scrubber learns of them all the same, since what
// follows may be the rest of a key that began in them.
func (l *Log) skip(p []byte) []byte {
	if l.file != nil && !l.file.flooded(len(p)) {
		return p
	}
	start := len(p)
	for range tailLines + 1 {
		i := bytes.LastIndexByte(p[:start], '\n')
		if i < 0 {
			return p
		}
		start = i
	}
	start++ // behind the line feed
	if l.file != nil {
		l.file.drop(bytes.Count(p[:start], []byte{'\n'}), start)
	}
	skipped := p[:start]
	if len(l.partial) > 0 { // whose end is the first that is skipped
		end := bytes.IndexByte(skipped, '\n')
		free := maxLine + margin - len(l.partial)
		l.scrub.Skip(append(l.partial, skipped[:min(end, free)]...))
		skipped = skipped[end+1:]
	}
	l.scrub.Skip(skipped)
	l.partial, l.cutting = l.partial[:0], false
	return p[start:]
}

// Note writes one line of our own about the child. It may be called from any goroutine.
func (l *Log) Note(text []byte) { l.note(l.folder.scrub, text, false) }

func (l *Log) note(scrub func([]byte) []byte, text []byte, cut bool) {
	if len(text) > maxLine+margin {
		text, cut = text[:maxLine+margin], true
	}
	l.flush(l.line(nil, scrub, bytes.ReplaceAll(text, []byte{'\n'}, []byte{' '}), cut, l.folder.now().UTC()), 1)
}

// Line writes one line of another stream of the child, of which it is given all lines in
// their order, on one goroutine. label stands before it; cut says that the rest of it
// is missing, and its last 4 KiB are not shown then. It returns the line as it was
// handed in, without secrets.
func (l *Log) Line(label string, line []byte, cut bool) []byte {
	clean := l.other.Line(line)
	as := func(text []byte) []byte { return text }
	l.note(as, append([]byte(label), clean...), cut)
	return clean
}

// line adds one complete line to the ring and to what goes to the file. cut
// says that the rest of it is missing: its last bytes may be the beginning of
// a secret, which nobody could recognize.
func (l *Log) line(out []byte, scrub func([]byte) []byte, text []byte, cut bool, now time.Time) []byte {
	text = bytes.TrimRight(text, "\r")
	if len(text) == 0 {
		return out
	}
	text = scrub(text)
	if cut {
		text = text[:max(0, len(text)-margin)]
	}
	if len(text) > maxLine {
		text, cut = text[:maxLine], true
	}
	l.remember(text, cut)
	if l.file == nil {
		return out
	}
	out = now.AppendFormat(out, stamp)
	out = append(out, ' ')
	if l.label != "" {
		out = append(out, l.label...)
		out = append(out, ' ')
	}
	out = append(out, text...)
	if cut {
		out = append(out, cutMark...)
	}
	return append(out, '\n')
}

func (l *Log) flush(out []byte, lines int) {
	if len(out) > 0 && l.file != nil {
		l.file.append(out, lines)
	}
}

func (l *Log) remember(text []byte, cut bool) {
	if len(text) > tailLine {
		text, cut = text[:tailLine], true
		for len(text) > tailLine-utf8.UTFMax && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		if r, n := utf8.DecodeLastRune(text); r == utf8.RuneError && n == 1 {
			text = text[:len(text)-1]
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tail) < tailLines {
		l.tail = append(l.tail, nil)
		l.next = len(l.tail) - 1
	}
	if l.since++; givesUp(text) {
		l.reason, l.since = append(l.reason[:0], text...), 0
	}
	slot := append(l.tail[l.next][:0], text...)
	if cut {
		slot = append(slot, cutMark...)
	}
	l.tail[l.next] = slot
	l.next = (l.next + 1) % tailLines
}

// givesUp tells whether a line says why a runtime ends its program.
func givesUp(line []byte) bool {
	for _, words := range []string{"fatal error: ", "FATAL ERROR: ", "panic: ", "out of memory", "Out of memory", "cannot allocate memory", "Cannot allocate memory"} {
		if bytes.Contains(line, []byte(words)) {
			return true
		}
	}
	return false
}

// Last returns the last lines, oldest first, at most 20 of at most 500 bytes
// (and a mark where one was cut). In front of them stands the line in which a
// runtime said why it gave up, where that is further back. It may be called at any time from any
// goroutine, also after Close.
func (l *Log) Last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tail) == 0 {
		return nil
	}
	lines := make([]string, 0, 1+len(l.tail))
	if l.reason != nil && l.since >= tailLines {
		lines = append(lines, string(l.reason))
	}
	first := 0
	if len(l.tail) == tailLines {
		first = l.next
	}
	for i := range l.tail {
		lines = append(lines, string(l.tail[(first+i)%len(l.tail)]))
	}
	return lines
}

// Finish hands on a last line without an end. It is for the goroutine that
// writes.
func (l *Log) Finish() {
	if len(l.partial) > 0 {
		l.flush(l.line(nil, l.scrub.Line, l.partial, l.cutting, l.folder.now().UTC()), 1)
	}
	l.partial, l.cutting = nil, false
}

// Close lets go of the file; the lines in memory stay. Calling it again does
// nothing. Nobody may write any more.
func (l *Log) Close() {
	l.mu.Lock()
	done := l.closed
	l.closed = true
	l.mu.Unlock()
	if !done && l.file != nil && l.folder.release(l.file) {
		l.file.close()
	}
}
