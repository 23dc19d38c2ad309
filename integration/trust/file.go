package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/jsonc"
	"github.com/metamcp/metamcp/integration/lockedfile"
)

// FileName is the name of the trust file in the state folder.
const FileName = "trusted-servers.json"

const (
	maxFile    = 1 << 20 // bytes
	maxEntries = 10_000
	maxDepth   = 20
)

// newFile is what a new trust file holds.
const newFile = `// Which MCP servers metamcp may install without asking a person. docs/TRUST.md
// says what an entry can be; metamcp trust add and remove change this file and
// keep comments.
{
  "trusted": [
    "@modelcontextprotocol/*",
    "@anthropic/*"
  ],
  // What stands here is never installed, whoever trusts it.
  "blocked": []
}
`

// Load reads the trust file; a missing one is made. It never fails: a file that
// cannot be used is a policy that trusts nothing, with the Problem. It is cheap
// enough to be read for every decision, so that a change counts at once.
func Load(path string) *Policy {
	text, err := lockedfile.ReadTrusted(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			p := Default()
			p.File, p.Note = path, fmt.Sprintf("the trust file cannot be made, and the default counts: %v", err)
			return p
		}
		text, err = lockedfile.ReadTrusted(path, maxFile)
	}
	var d *document
	if err == nil {
		d, err = parse(text)
	}
	if err != nil {
		return &Policy{File: path, Problem: fmt.Sprintf("%s: %v", path, err)}
	}
	return &Policy{File: path, Trusted: d.trusted.entries, Blocked: d.blocked.entries, Threshold: d.threshold}
}

// create makes the file where it is still missing. An edit may have made it since it
// was looked for, and what that blocks must stay blocked.
func create(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	unlock, err := lockedfile.Lock(context.Background(), path+".lock", lockedfile.Patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if _, missing := os.Lstat(path); !errors.Is(missing, fs.ErrNotExist) {
		return nil // whoever reads it says what is wrong with it
	}
	return atomicfile.Write(path, []byte(newFile), 0o600)
}

// document is a trust file that can be changed.
type document struct {
	text      []byte
	root      *hujson.Value
	array     bool // the whole file is a list of what is trusted
	trusted   list
	blocked   list
	threshold float64
}

// list is one of the two lists.
type list struct {
	value   *hujson.Value // nil: it is not there
	entries []Entry
}

// parse reads a trust file. The error says where and what is wrong.
func parse(text []byte) (*document, error) {
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) {
		return nil, errors.New("it is UTF-16; save it as UTF-8")
	}
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))) == 0 {
		return nil, errors.New(`it is empty; delete it to get the default, or write {"trusted": []} to trust nobody`)
	}
	d := &document{text: text, threshold: Threshold}
	// The parser takes no byte order mark and wants a line feed after a comment.
	// Blanks in its place keep all offsets.
	clean := append(bytes.Replace(text, []byte("\xef\xbb\xbf"), []byte("   "), 1), '\n')
	if !bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		clean = append(text[:len(text):len(text)], '\n')
	}
	if jsonc.TooDeep(clean, maxDepth) >= 0 {
		return nil, errors.New("it is nested too deeply")
	}
	root, err := hujson.Parse(clean)
	if err != nil {
		return nil, syntax(err)
	}
	d.root = &root
	switch v := root.Value.(type) {
	case *hujson.Array:
		d.array = true
		d.trusted.value = d.root
	case *hujson.Object:
		if err := d.members(v); err != nil {
			return nil, err
		}
	default:
		return nil, errors.New(`it must be an object like {"trusted": [], "blocked": []}, or a list of what is trusted`)
	}
	for _, l := range []*list{&d.trusted, &d.blocked} {
		if err := d.read(l); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func syntax(err error) error {
	// The parser repeats the bad literal, which may be long.
	text := strings.TrimPrefix(err.Error(), "hujson: ")
	const longest = 160
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return fmt.Errorf("it is not JSON: %s", text)
}

// members reads the keys of the file. One that is not known may be a
// misspelling of one that protects, so it breaks the file.
func (d *document) members(obj *hujson.Object) error {
	seen := map[string]bool{}
	for i := range obj.Members {
		m := &obj.Members[i]
		name := stringOf(&m.Name)
		if seen[name] {
			return d.at(&m.Name, "%s is written twice", quote(name))
		}
		seen[name] = true
		switch name {
		case "trusted":
			d.trusted.value = &m.Value
		case "blocked":
			d.blocked.value = &m.Value
		case "threshold":
			lit, ok := m.Value.Value.(hujson.Literal)
			if !ok || json.Unmarshal(lit, &d.threshold) != nil || lit.Kind() != '0' || d.threshold < Threshold || d.threshold > 1 {
				return d.at(&m.Value, "threshold must be a number from %v to 1", Threshold)
			}
		case "$schema":
		default:
			return d.at(&m.Name, "%s is not known; there are trusted, blocked and threshold", quote(name))
		}
	}
	return nil
}

func (d *document) read(l *list) error {
	if l.value == nil {
		return nil
	}
	array, ok := l.value.Value.(*hujson.Array)
	if !ok {
		return d.at(l.value, "expected a list")
	}
	if len(array.Elements) > maxEntries {
		return d.at(l.value, "more than %d entries", maxEntries)
	}
	for i := range array.Elements {
		v := &array.Elements[i]
		if v.Value.Kind() != '"' {
			return d.at(v, "expected a name in quotes")
		}
		e, err := ParseEntry(stringOf(v))
		if err != nil {
			return d.at(v, "%v", err)
		}
		l.entries = append(l.entries, e)
	}
	return nil
}

func (d *document) at(v *hujson.Value, format string, args ...any) error {
	line := 1 + bytes.Count(d.text[:min(v.StartOffset, len(d.text))], []byte{'\n'})
	return fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
}

func stringOf(v *hujson.Value) string {
	lit, ok := v.Value.(hujson.Literal)
	if !ok {
		return ""
	}
	return lit.String()
}

// List names one of the two lists.
type List string

// The lists.
const (
	TrustedList List = "trusted"
	BlockedList List = "blocked"
)

func (d *document) list(which List) *list {
	if which == BlockedList {
		return &d.blocked
	}
	return &d.trusted
}

// add returns the text of the file with one more entry; nil where it is there
// already.
func (d *document) add(which List, e *Entry) []byte {
	l := d.list(which)
	if slices.ContainsFunc(l.entries, func(o Entry) bool { return o.key() == e.key() }) {
		return nil
	}
	literal := mustQuote(e.Text)
	switch {
	case l.value != nil:
		array := l.value.Value.(*hujson.Array)
		var last *hujson.Value
		if n := len(array.Elements); n > 0 {
			last = &array.Elements[n-1]
		}
		return d.insert(l.value, last, literal)
	case d.array:
		// A plain list becomes an object, its comments where they were.
		text := append([]byte(nil), d.text[:d.root.StartOffset]...)
		text = append(text, "{\"trusted\": "...)
		text = append(text, d.text[d.root.StartOffset:d.root.EndOffset]...)
		text = append(text, fmt.Sprintf(", %q: [%s]}", which, literal)...)
		return append(text, d.text[d.root.EndOffset:]...)
	}
	obj := d.root.Value.(*hujson.Object)
	var last *hujson.Value
	if n := len(obj.Members); n > 0 {
		last = &obj.Members[n-1].Value
	}
	return d.insert(d.root, last, fmt.Sprintf("%q: [%s]", which, literal))
}

// insert puts text at the end of an object or a list, behind the comments that
// stand there.
func (d *document) insert(in, last *hujson.Value, text string) []byte {
	closing := in.EndOffset - 1
	from := in.StartOffset + 1
	if last != nil {
		from = last.EndOffset
	}
	between := d.text[from:closing]
	blanks := len(between) - len(bytes.TrimRight(between, " \t\r\n"))
	tail := closing - blanks // behind the last comment
	feed := "\n"
	if bytes.Contains(d.text, []byte("\r\n")) {
		feed = "\r\n"
	}
	var out []byte
	out = append(out, d.text[:from]...)
	if last != nil && last.AfterExtra == nil { // otherwise a comma is there already
		out = append(out, ',')
	}
	out = append(out, d.text[from:tail]...)
	if bytes.IndexByte(d.text[in.StartOffset:closing], '\n') < 0 {
		if last != nil {
			out = append(out, ' ')
		}
		out = append(out, text...)
		return append(out, d.text[closing:]...)
	}
	out = append(out, feed...)
	out = append(out, d.indent(in, last)...)
	out = append(out, text...)
	rest := d.text[tail:closing]
	if bytes.IndexByte(rest, '\n') < 0 {
		out = append(out, feed...)
	}
	return append(out, d.text[tail:]...)
}

// indent is the white space before the last element, or a little more than
// before the line in which the list begins.
func (d *document) indent(in, last *hujson.Value) []byte {
	at, more := in.StartOffset, "  "
	if last != nil && bytes.IndexByte(d.text[in.StartOffset:last.StartOffset], '\n') >= 0 {
		at, more = last.StartOffset, ""
	}
	start := bytes.LastIndexByte(d.text[:at], '\n') + 1
	line := d.text[start:at]
	blank := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return append(append([]byte(nil), blank...), more...)
}

// remove returns the text of the file without an entry; nil where it is not
// there. Comments stay.
func (d *document) remove(which List, e *Entry) []byte {
	l := d.list(which)
	i := slices.IndexFunc(l.entries, func(o Entry) bool { return o.key() == e.key() })
	if i < 0 {
		return nil
	}
	array := l.value.Value.(*hujson.Array)
	v := &array.Elements[i]
	cutFrom, cutTo := v.StartOffset, v.EndOffset
	comma := -1
	switch {
	case i+1 < len(array.Elements) || v.AfterExtra != nil:
		comma = v.EndOffset + len(v.AfterExtra)
	case i > 0:
		before := &array.Elements[i-1]
		comma = before.EndOffset + len(before.AfterExtra)
	}
	var out []byte
	switch {
	case comma >= cutTo:
		out = append(out, d.text[:cutFrom]...)
		out = append(out, d.text[cutTo:comma]...)
		cutTo = comma + 1
	case comma >= 0:
		out = append(out, d.text[:comma]...)
		out = append(out, d.text[comma+1:cutFrom]...)
	default:
		out = append(out, d.text[:cutFrom]...)
	}
	rest := d.text[cutTo:]
	// A line that is empty now goes as a whole; elsewhere one blank goes.
	lineStart := bytes.LastIndexByte(out, '\n') + 1
	end := bytes.IndexByte(rest, '\n')
	if lineStart > 0 && end >= 0 && len(bytes.TrimSpace(out[lineStart:])) == 0 && len(bytes.TrimSpace(rest[:end])) == 0 {
		out, rest = out[:lineStart], rest[end+1:]
	} else if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return append(out, rest...)
}

func mustQuote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return `""` // a string can always be written
	}
	return string(quoted)
}
