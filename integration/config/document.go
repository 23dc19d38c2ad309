package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/jsonc"
	"github.com/tailscale/hujson"
)

const (
	// maxFileSize bounds one file; 10,000 servers take about 2 MB.
	maxFileSize = 16 << 20
	// maxDepth bounds nesting, since the parser recurses.
	maxDepth = 200
)

// document is one parsed file that can say where in it something stands.
type document struct {
	file  string
	text  []byte
	lines []int // offset of the first byte of each line
	root  hujson.Value

	// The last answer of position: a file may be one long line, and questions
	// come nearly in its order.
	lastOffset, lastColumn int
}

// syntaxError is a file that is not JSON.
type syntaxError struct {
	line, column int
	message      string
	hint         string // never ""
}

func (e *syntaxError) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.line, e.column, e.message)
}

// parseDocument reads JSON with comments and trailing commas. Its error is a
// *syntaxError.
func parseDocument(file string, text []byte) (*document, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	d := &document{file: file}
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}), bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		return nil, &syntaxError{1, 1, "the file is UTF-16", "save it as UTF-8"}
	case len(text) > maxFileSize:
		return nil, &syntaxError{1, 1, fmt.Sprintf("the file is larger than %d MiB", maxFileSize>>20), "split it and name the parts with --config"}
	case len(bytes.TrimSpace(text)) == 0:
		return nil, &syntaxError{1, 1, "the file is empty", `write {"mcpServers": {}} at least`}
	}
	// The parser wants a line feed after a trailing // comment; the full slice
	// expression keeps the caller's array as it is.
	d.text = append(text[:len(text):len(text)], '\n')
	d.lines = lineStarts(d.text)
	if at := jsonc.TooDeep(d.text, maxDepth); at >= 0 {
		line, column := d.position(at)
		return nil, &syntaxError{line, column, fmt.Sprintf("nested deeper than %d levels", maxDepth), "write it with fewer levels"}
	}
	var err error
	if d.root, err = hujson.Parse(d.text); err != nil {
		return nil, d.explain(err)
	}
	return d, nil
}

// parseText parses the value of a flag or variable.
func parseText(text string) (*hujson.Value, *document, error) {
	d, err := parseDocument("", []byte(text))
	if err != nil {
		var s *syntaxError
		if errors.As(err, &s) {
			return nil, nil, fmt.Errorf("not JSON: column %d: %s", s.column, s.message)
		}
		return nil, nil, err
	}
	return &d.root, d, nil
}

// explain turns the parser's error into ours. The parser repeats the whole bad
// literal, which may be a secret and long, so only its kind is kept.
func (d *document) explain(err error) *syntaxError {
	s := &syntaxError{line: 1, column: 1, hint: "correct the file there: look for a comma, colon, quote or bracket that is missing or too many"}
	var column int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &s.line, &column); scanErr == nil &&
		s.line >= 1 && s.line <= len(d.lines) {
		// An end that comes too early is where the last word was, not behind the
		// line feeds that follow it.
		end := len(bytes.TrimRight(d.text, " \t\r\n"))
		s.line, s.column = d.position(min(d.lines[s.line-1]+max(column, 1)-1, end))
	}
	switch inner := errors.Unwrap(err); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		s.message, s.hint = "the file ends too early", "close the bracket, quote or comment that is still open"
	case inner != nil && strings.HasPrefix(inner.Error(), "invalid literal"):
		s.message = "not a JSON value"
		s.hint = `look for a missing quote, and write a backslash in a string as \\`
	case inner != nil:
		s.message = inner.Error()
	default:
		s.message = "not JSON"
	}
	return s
}

func lineStarts(text []byte) []int {
	starts := make([]int, 1, 1+bytes.Count(text, []byte{'\n'}))
	for i := 0; ; {
		n := bytes.IndexByte(text[i:], '\n')
		if n < 0 {
			return starts
		}
		i += n + 1
		starts = append(starts, i)
	}
}

// line returns the line of an offset, from 1.
func (d *document) line(offset int) int { return max(sort.SearchInts(d.lines, offset+1), 1) }

// position returns line and column, both from 1, the column in characters. It
// must not be called from two goroutines at once.
func (d *document) position(offset int) (line, column int) {
	line = d.line(offset)
	start := d.lines[line-1]
	switch {
	case d.lastColumn == 0 || d.lastOffset < start || d.lastOffset > offset && d.lastOffset-offset > offset-start:
		column = utf8.RuneCount(d.text[start:offset]) + 1
	case d.lastOffset <= offset:
		column = d.lastColumn + utf8.RuneCount(d.text[d.lastOffset:offset])
	case d.line(d.lastOffset) != line:
		column = utf8.RuneCount(d.text[start:offset]) + 1
	default:
		column = d.lastColumn - utf8.RuneCount(d.text[offset:d.lastOffset])
	}
	d.lastOffset, d.lastColumn = offset, column
	return line, column
}

// problem is a Problem that points to a value.
func (d *document) problem(at *hujson.Value, message, hint string) Problem {
	line, column := d.position(at.StartOffset)
	return Problem{File: d.file, Line: line, Column: column, Message: message, Hint: hint}
}

// literalString returns the text of a JSON string.
func literalString(lit hujson.Literal) string {
	if inner := lit[1 : len(lit)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	// The parser has already checked the literal.
	_ = json.Unmarshal(lit, &s)
	return s
}
