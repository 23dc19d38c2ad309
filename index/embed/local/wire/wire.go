// Package wire is the protocol between metamcp and its worker metamcp-embed,
// which embeds texts with a local model.
//
// Both directions carry frames: four bytes with the length of what follows
// (big-endian, at most [MaxFrame]), then one JSON object, a [Request] to the
// worker's standard input or an [Answer] from its standard output. Nothing else
// may be written there.
//
// The worker begins with an Answer of type Hello that names the [Version] of
// the protocol; a host that knows another one ends the worker. The host sends
// one Load and gets Loaded or Failed. From then on it may send any number of
// Embeds without waiting: queries go before documents, text by text, and else
// the order is kept. Each Embed is answered by one Vector for each of its texts,
// in their order, and then Done, or by Failed at any point, after which nothing
// more comes for it. Cancel ends an Embed early; what was on its way may still
// come. A worker whose input ends exits at once.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Version is the version of the protocol.
const Version = 1

// MaxFrame is how long a frame may be, in bytes, without its length.
const MaxFrame = 16 << 20

// RequestType says what a [Request] is.
type RequestType string

// The requests.
const (
	Load   RequestType = "load"
	Embed  RequestType = "embed"
	Cancel RequestType = "cancel"
)

// A Request is what the host sends.
type Request struct {
	Type RequestType `json:"type"`
	// ID tells the answers of one Embed from those of others; Cancel names
	// the Embed that it ends.
	ID uint64 `json:"id,omitempty"`
	// Model and GPULayers belong to Load: the file, and how many of its
	// layers a GPU computes.
	Model     string `json:"model,omitempty"`
	GPULayers int    `json:"gpuLayers,omitempty"`
	// Query and Texts belong to Embed.
	Query bool     `json:"query,omitempty"`
	Texts []string `json:"texts,omitempty"`
}

// AnswerType says what an [Answer] is.
type AnswerType string

// The answers.
const (
	Hello  AnswerType = "hello"
	Loaded AnswerType = "loaded"
	Vector AnswerType = "vector"
	Done   AnswerType = "done"
	Failed AnswerType = "failed"
)

// An Answer is what the worker sends.
type Answer struct {
	Type AnswerType `json:"type"`
	// ID is that of the Embed; 0 where the answer belongs to none.
	ID uint64 `json:"id,omitempty"`
	// Version belongs to Hello.
	Version int `json:"version,omitempty"`
	// MaxTokens belongs to Loaded: what is longer is cut. 0: not known.
	MaxTokens int `json:"maxTokens,omitempty"`
	// Index and Values belong to Vector: which text, and its vector as [Pack]
	// writes it; empty for a text in which there is nothing to see.
	Index  int    `json:"index,omitempty"`
	Values []byte `json:"values,omitempty"`
	// Message belongs to Failed.
	Message string `json:"message,omitempty"`
}

var errCut = fmt.Errorf("the stream ended inside a frame: %w", io.ErrUnexpectedEOF)

// Write sends one message as a frame, in one call of Write.
func Write(w io.Writer, message any) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(body) > MaxFrame {
		return fmt.Errorf("a message of %d bytes is longer than a frame may be (%d)", len(body), MaxFrame)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...))
	return err
}

// Read receives one message. It returns io.EOF where the stream ends between
// two frames, an error that wraps io.ErrUnexpectedEOF where it ends within one,
// and takes no more memory than the stream has bytes.
func Read(r io.Reader, message any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errCut
		}
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > MaxFrame {
		return fmt.Errorf("a frame claims %d bytes; at most %d are allowed, so something else than the protocol was written", n, MaxFrame)
	}
	body, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(body) < int(n) {
		return errCut
	}
	if err := json.Unmarshal(body, message); err != nil {
		return fmt.Errorf("a frame is not what the protocol says: %w", err)
	}
	return nil
}

// Pack writes a vector as little-endian float32.
func Pack(vector []float32) []byte {
	packed := make([]byte, 0, 4*len(vector))
	for _, v := range vector {
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(v))
	}
	return packed
}

// Unpack is the reverse of [Pack].
func Unpack(packed []byte) ([]float32, error) {
	if len(packed)%4 != 0 {
		return nil, fmt.Errorf("a vector of %d bytes", len(packed))
	}
	vector := make([]float32, len(packed)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*i:]))
	}
	return vector, nil
}
