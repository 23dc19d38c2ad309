package gguf_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/index/embed/models/gguf"
	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
)

func TestRead(t *testing.T) {
	m := gguftest.BERT{Name: "a model", Context: 77, Dimension: 16, Words: []string{"tool"}}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, m.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := gguf.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Name != "a model" || info.Architecture != "bert" || info.Tokenizer != "bert" || info.ContextLength != 77 || info.EmbeddingLength != 16 {
		t.Errorf("%+v", info)
	}
	if !slices.Equal(info.Tokens, m.Vocabulary()) {
		t.Errorf("%d tokens", len(info.Tokens))
	}
}

func TestBroken(t *testing.T) {
	whole := gguftest.BERT{}.Bytes()
	header := bytes.Index(whole, []byte("tokenizer.ggml.token_type_count"))
	changed := func(at int, b ...byte) []byte {
		c := slices.Clone(whole)
		copy(c[at:], b)
		return c
	}
	var odd gguftest.Writer
	odd.String("general.architecture", "bert")
	odd.Uint32("bert.context_length", 1<<31)
	tests := []struct {
		name string
		data []byte
		says string // "": it can be read
	}{
		{"empty", nil, `begin with "GGUF"`},
		{"a page", []byte("<html></html>"), `begin with "GGUF"`},
		{"version 1", changed(4, 1), "version 1"},
		{"big-endian", changed(4, 0, 0, 0, 3), "version 50331648"},
		{"cut in its head", whole[:10], "ends too early"},
		{"cut in a name", whole[:30], "ends too early"},
		{"cut in the vocabulary", whole[:header-500], "ends too early"},
		{"too many entries", changed(16, 0xff, 0xff, 0xff, 0xff), "entries"},
		{"a long name", changed(24, 0xff, 0xff, 0xff, 0xff, 0xff), "a text of"},
		{"an unknown type", changed(24+8+len("general.architecture"), 99), "unknown type 99"},
		{"an impossible number", odd.Bytes(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info, err := gguf.Read(bytes.NewReader(tt.data))
			if tt.says == "" {
				if err != nil || info.ContextLength != 0 {
					t.Errorf("%+v, %v", info, err)
				}
				return
			}
			if !errors.Is(err, gguf.ErrFormat) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := gguf.ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	whole := gguftest.BERT{Layers: 1, Dimension: 4}.Bytes()
	f.Add(whole[:min(len(whole), 6000)])
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = gguf.Read(bytes.NewReader(data)) })
}
