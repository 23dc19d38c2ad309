// Package gguftest writes GGUF files for tests: small ones that llama.cpp
// really loads.
package gguftest

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// A Writer collects the parts of a file.
type Writer struct {
	pairs, infos, data []byte
	pairCount, tensors uint64
}

// alignment is that of tensors where a file does not say otherwise.
const alignment = 32

func (w *Writer) key(name string, kind uint32) {
	w.pairCount++
	w.pairs = appendString(w.pairs, name)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, kind)
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// String adds an entry.
func (w *Writer) String(name, value string) {
	w.key(name, 8)
	w.pairs = appendString(w.pairs, value)
}

// Uint32 adds an entry.
func (w *Writer) Uint32(name string, value uint32) {
	w.key(name, 4)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, value)
}

// Float32 adds an entry.
func (w *Writer) Float32(name string, value float32) {
	w.key(name, 6)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, math.Float32bits(value))
}

// Bool adds an entry.
func (w *Writer) Bool(name string, value bool) {
	w.key(name, 7)
	b := byte(0)
	if value {
		b = 1
	}
	w.pairs = append(w.pairs, b)
}

// Strings adds an entry.
func (w *Writer) Strings(name string, values []string) {
	w.key(name, 9)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, 8)
	w.pairs = binary.LittleEndian.AppendUint64(w.pairs, uint64(len(values)))
	for _, v := range values {
		w.pairs = appendString(w.pairs, v)
	}
}

// Int32s adds an entry.
func (w *Writer) Int32s(name string, values []int32) {
	w.key(name, 9)
	w.pairs = binary.LittleEndian.AppendUint32(w.pairs, 5)
	w.pairs = binary.LittleEndian.AppendUint64(w.pairs, uint64(len(values)))
	for _, v := range values {
		w.pairs = binary.LittleEndian.AppendUint32(w.pairs, uint32(v))
	}
}

// Tensor adds float32 weights; the first dimension is that of a row.
func (w *Writer) Tensor(name string, values []float32, dimensions ...int) {
	w.tensors++
	w.infos = appendString(w.infos, name)
	w.infos = binary.LittleEndian.AppendUint32(w.infos, uint32(len(dimensions)))
	for _, d := range dimensions {
		w.infos = binary.LittleEndian.AppendUint64(w.infos, uint64(d))
	}
	w.infos = binary.LittleEndian.AppendUint32(w.infos, 0) // float32
	w.infos = binary.LittleEndian.AppendUint64(w.infos, uint64(len(w.data)))
	for _, v := range values {
		w.data = binary.LittleEndian.AppendUint32(w.data, math.Float32bits(v))
	}
	w.data = pad(w.data)
}

func pad(b []byte) []byte {
	for len(b)%alignment != 0 {
		b = append(b, 0)
	}
	return b
}

// Bytes returns the file, of version 3.
func (w *Writer) Bytes() []byte {
	b := []byte("GGUF")
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, w.tensors)
	b = binary.LittleEndian.AppendUint64(b, w.pairCount)
	b = append(append(b, w.pairs...), w.infos...)
	return append(pad(b), w.data...)
}

// BERT describes a model of fixed random weights; zero values mean a small one.
type BERT struct {
	Seed                        uint64
	Context, Dimension, Layers  int
	Words                       []string
	Name                        string
	Architecture, TokenizerName string
}

// Vocabulary returns the tokens of the model: those that frame texts, all of
// ASCII, as beginnings of words and within them, a few Chinese characters, and
// the words.
func (m BERT) Vocabulary() []string {
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	for c := '!'; c <= '~'; c++ {
		tokens = append(tokens, "▁"+string(c), string(c))
	}
	for _, c := range "你好世界" {
		tokens = append(tokens, "▁"+string(c))
	}
	for _, w := range m.Words {
		tokens = append(tokens, "▁"+w)
	}
	return tokens
}

// Bytes returns the file, which is always the same for one description.
func (m BERT) Bytes() []byte {
	or := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	or(&m.Context, 64)
	or(&m.Dimension, 32)
	or(&m.Layers, 2)
	orText := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	orText(&m.Architecture, "bert")
	orText(&m.TokenizerName, "bert")
	orText(&m.Name, "tiny")
	const heads, types = 4, 2
	inner := 2 * m.Dimension
	tokens := m.Vocabulary()
	kinds := make([]int32, len(tokens))
	for i := range kinds {
		kinds[i] = 1 // normal
		if i < 5 {
			kinds[i] = 3 // control
		}
	}
	w := new(Writer)
	w.String("general.architecture", m.Architecture)
	w.String("general.name", m.Name)
	for _, entry := range []struct {
		name  string
		value int
	}{
		{"context_length", m.Context}, {"embedding_length", m.Dimension}, {"feed_forward_length", inner},
		{"block_count", m.Layers}, {"attention.head_count", heads}, {"pooling_type", 1},
	} {
		w.Uint32(m.Architecture+"."+entry.name, uint32(entry.value))
	}
	w.Float32(m.Architecture+".attention.layer_norm_epsilon", 1e-12)
	w.Bool(m.Architecture+".attention.causal", false)
	w.String("tokenizer.ggml.model", m.TokenizerName)
	w.String("tokenizer.ggml.pre", "default")
	w.Strings("tokenizer.ggml.tokens", tokens)
	w.Int32s("tokenizer.ggml.token_type", kinds)
	for _, token := range []struct {
		name string
		id   uint32
	}{
		{"padding", 0}, {"unknown", 1}, {"cls", 2}, {"bos", 2}, {"seperator", 3}, {"eos", 3}, {"mask", 4}, //nolint:misspell // the format's own spelling
	} {
		w.Uint32("tokenizer.ggml."+token.name+"_token_id", token.id)
	}
	w.Uint32("tokenizer.ggml.token_type_count", types)

	random := rand.New(rand.NewPCG(m.Seed, 1)) //nolint:gosec // the weights are to be the same each time
	weights := func(name string, dimensions ...int) {
		n := 1
		for _, d := range dimensions {
			n *= d
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(random.NormFloat64() * 0.3)
		}
		w.Tensor(name, values, dimensions...)
	}
	norm := func(name string) {
		values := make([]float32, m.Dimension)
		for i := range values {
			values[i] = 1
		}
		w.Tensor(name+".weight", values, m.Dimension)
		w.Tensor(name+".bias", make([]float32, m.Dimension), m.Dimension)
	}
	weights("token_embd.weight", m.Dimension, len(tokens))
	weights("token_types.weight", m.Dimension, types)
	weights("position_embd.weight", m.Dimension, m.Context)
	norm("token_embd_norm")
	for layer := range m.Layers {
		block := "blk." + string(rune('0'+layer)) + "."
		for _, part := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			weights(block+part+".weight", m.Dimension, m.Dimension)
			weights(block+part+".bias", m.Dimension)
		}
		norm(block + "attn_output_norm")
		weights(block+"ffn_up.weight", m.Dimension, inner)
		weights(block+"ffn_up.bias", inner)
		weights(block+"ffn_down.weight", inner, m.Dimension)
		weights(block+"ffn_down.bias", m.Dimension)
		norm(block + "layer_output_norm")
	}
	return w.Bytes()
}
