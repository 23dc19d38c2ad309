package traceview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// maxHint is how much of a file without a record is looked at.
const maxHint = 4096

// hint keeps the beginning of what is no record, to say what the file seems to
// be.
func (b *Builder) hint(line []byte) {
	if b.taken > 0 || len(b.seen) >= maxHint {
		return
	}
	b.seen = append(b.seen, line[:min(len(line), maxHint-len(b.seen))]...)
	b.seen = append(b.seen, '\n')
}

// finish is the trace, or why there is none.
func (b *Builder) finish(path string) (*Trace, error) {
	if b.taken > 0 {
		return b.Trace(), nil
	}
	for v, n := range b.problems.versions {
		return nil, fmt.Errorf("%s holds %s of version %d of the format, which this metamcp does not know; update it", path, plural(n, "record"), v)
	}
	return nil, fmt.Errorf("%s holds no record of a trace; %s", path, seems(b.seen))
}

// seems guesses what a file is from its beginning.
func seems(text []byte) string {
	const write = "; a trace that can be read is written with --trace=FILE.jsonl"
	trimmed := bytes.TrimSpace(text)
	lower := bytes.ToLower(trimmed)
	switch {
	case len(trimmed) == 0:
		return "it is empty: the host that writes it may not have started yet"
	case bytes.HasPrefix(trimmed, []byte(`{"v":`)):
		return "it seems to be a trace of which only half a line was written"
	case bytes.ContainsRune(trimmed[:min(len(trimmed), 512)], 0) || !mostlyText(trimmed):
		return "it seems to be binary" + write
	case bytes.Contains(trimmed, []byte(" → ")) || bytes.Contains(trimmed, []byte("  * metamcp")):
		return "it seems to be the trace for people, as --trace writes it to stderr" + write
	case bytes.HasPrefix(lower, []byte("<!doctype")) || bytes.HasPrefix(lower, []byte("<html")):
		return "it seems to be a page of HTML" + write
	case bytes.Contains(trimmed, []byte(`"traceEvents"`)):
		return "it seems to be a trace for Perfetto, which this command writes but does not read" + write
	case bytes.Contains(trimmed, []byte(`"mcpServers"`)):
		return "it seems to be a configuration of MCP servers" + write
	case bytes.Contains(trimmed, []byte(`"jsonrpc"`)):
		return "it seems to be a log of JSON-RPC messages" + write
	case trimmed[0] == '{' || trimmed[0] == '[' || json.Valid(trimmed):
		return "it seems to be other JSON" + write
	}
	return "it seems to be other text" + write
}

func mostlyText(b []byte) bool {
	bad, all := 0, 0
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError || r < ' ' && r != '\n' && r != '\t' && r != '\r' {
			bad++
		}
		all++
		b = b[n:]
	}
	return bad*10 <= all
}
