package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func payloads() map[string][]byte {
	wrap := func(text string) []byte {
		return append(AppendQuote([]byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"files","tool":"write","args":{"text":`), text), `}}}}`...)
	}
	var numbers strings.Builder
	numbers.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"rows":[`)
	for i := range 20_000 {
		if i > 0 {
			numbers.WriteByte(',')
		}
		numbers.WriteString(`{"id":123456,"score":-0.12345,"name":"abc","ok":true}`)
	}
	numbers.WriteString(`]}}`)
	return map[string][]byte{
		"100B":         []byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`),
		"1MB-plain":    wrap(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1<<20/45)),
		"1MB-escapes":  wrap(strings.Repeat("The \"quick\" brown fox jumps over the lazy dog here.\n\tNext line goes on. ", 1<<20/70)),
		"1MB-japanese": wrap(strings.Repeat("色は匂へど散りぬるを。", 1<<20/33)),
		"1MB-records":  []byte(numbers.String()),
	}
}

var order = []string{"100B", "1MB-plain", "1MB-escapes", "1MB-japanese", "1MB-records"}

func run(b *testing.B, f func(line []byte) error) {
	all := payloads()
	for _, name := range order {
		line := all[name]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	run(b, func(line []byte) error { _, err := Parse(line); return err })
}

func BenchmarkParseShape(b *testing.B) {
	run(b, func(line []byte) error {
		var out [7][]byte
		_, err := ParseShape(line, callShape, out[:])
		return err
	})
}

func BenchmarkEncodingJSONValid(b *testing.B) {
	run(b, func(line []byte) error {
		if !json.Valid(line) {
			return errNotObject
		}
		return nil
	})
}

func BenchmarkEncodingJSONUnmarshal(b *testing.B) {
	run(b, func(line []byte) error {
		var m struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Method  string          `json:"method"`
			Params  json.RawMessage `json:"params"`
			Result  json.RawMessage `json:"result"`
			Error   json.RawMessage `json:"error"`
		}
		return json.Unmarshal(line, &m)
	})
}

func BenchmarkGet(b *testing.B) {
	run(b, func(line []byte) error { _ = Get(line, "id"); return nil })
}

func BenchmarkParseNaming(b *testing.B) {
	names := Names{"uri", "taskId", "requestState"}
	run(b, func(line []byte) error { _, _, err := ParseNaming(line, &names); return err })
}

func BenchmarkCompact(b *testing.B) {
	var buf []byte
	run(b, func(line []byte) error { _ = Compact(buf, line); return nil })
}

func BenchmarkEncodingJSONCompact(b *testing.B) {
	var buf bytes.Buffer
	run(b, func(line []byte) error { buf.Reset(); return json.Compact(&buf, line) })
}
