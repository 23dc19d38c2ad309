package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/index/embed/local/wire"
)

func TestRoundTrip(t *testing.T) {
	var stream bytes.Buffer
	sent := []wire.Answer{
		{Type: wire.Hello, Version: wire.Version},
		{Type: wire.Vector, ID: 7, Index: 3, Values: wire.Pack([]float32{1, -0.5, float32(math.Inf(1))})},
		{Type: wire.Failed, Message: "\u2028 <&> \x00"},
	}
	for _, a := range sent {
		if err := wire.Write(&stream, a); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range sent {
		var got wire.Answer
		if err := wire.Read(&stream, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	if err := wire.Read(&stream, new(wire.Answer)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestBadStreams(t *testing.T) {
	tests := []struct {
		name, stream, says string
		cut                bool
	}{
		{"cut in the length", "\x00\x00", "inside a frame", true},
		{"cut in the body", "\x00\x00\x00\x09{}", "inside a frame", true},
		{"somebody prints", "llama_model_load: error", "something else than the protocol", false},
		{"no JSON", "\x00\x00\x00\x02{x", "not what the protocol says", false},
		{"empty", "\x00\x00\x00\x00", "not what the protocol says", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := wire.Read(strings.NewReader(tt.stream), new(wire.Answer))
			if err == nil || !strings.Contains(err.Error(), tt.says) || errors.Is(err, io.ErrUnexpectedEOF) != tt.cut {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := wire.Write(io.Discard, wire.Request{Texts: []string{strings.Repeat("x", wire.MaxFrame)}}); err == nil {
		t.Error("a frame that is too long was written")
	}
}

func TestPack(t *testing.T) {
	v := []float32{0, 1, -1.5, math.MaxFloat32, math.SmallestNonzeroFloat32}
	got, err := wire.Unpack(wire.Pack(v))
	if err != nil || !slices.Equal(got, v) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := wire.Unpack([]byte{1, 2, 3}); err == nil {
		t.Error("three bytes are no float32")
	}
}
