package sandbox

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Frame is what passes between a host and a worker, each behind four bytes of
// length: exactly one of the pointers is set, or Ready. A host sends Script,
// Reply and Stand, a worker the others. A frame is one JSON text, but for an ask and the
// value that answers it, which have a form of their own.
type Frame struct {
	Run     uint64   `json:"run,omitempty"`
	Script  *Script  `json:"script,omitempty"`
	Reply   *Reply   `json:"reply,omitempty"`
	Stand   *Stand   `json:"stand,omitempty"`
	Ready   *Status  `json:"ready,omitempty"`
	Ask     *Ask     `json:"-"`
	Line    *Line    `json:"line,omitempty"`
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Status says what holds a worker, for people who want to know.
type Status struct {
	Landlock string `json:"landlock"` // "ABI 7", or why not
	Seccomp  string `json:"seccomp"`  // "on", or why not
	Rlimits  string `json:"rlimits"`  // "on", or why not
}

// Stand lets the time of a script stand still while it waits, for [MaxStood] in
// all, or go on. The time in which it works counts all the same.
type Stand struct {
	Still bool `json:"still"`
}

// MaxStood is for how long in all the time of a script may stand still.
const MaxStood = time.Hour

// MaxFrame is the largest frame that passes, in bytes.
const MaxFrame = 128 << 20

// MaxOutputBytes is the longest value that fits a frame with all that stands around
// it: a larger limit than this cannot be kept.
const MaxOutputBytes = MaxFrame - 1<<20

const headBytes = 4 // the length in front of a frame

// frameStart is what a reader sets aside for a frame before it has seen that
// much of it: a length alone must not take memory.
const frameStart = 64 << 10

// EncodeFrame returns f as [ReadFrame] reads it, its length in front.
func EncodeFrame(f *Frame) ([]byte, error) {
	data := packed(f)
	if data == nil {
		var b bytes.Buffer
		b.Write(make([]byte, headBytes))
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // it would make strings longer than they were counted
		if err := enc.Encode(f); err != nil {
			return nil, fmt.Errorf("sandbox: encode a frame: %w", err)
		}
		data = b.Bytes()
	}
	size := len(data) - headBytes
	if size > MaxFrame {
		return nil, fmt.Errorf("sandbox: a frame of %d bytes is over the limit of %d", size, MaxFrame)
	}
	binary.BigEndian.PutUint32(data, uint32(size))
	return data, nil
}

// ReadFrame reads one frame. The limit of its size is asked for once it has
// begun. It returns io.EOF where the stream ends between two frames.
func ReadFrame(r io.Reader, limit func() int64) (*Frame, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:]))
	if most := limit(); size > most {
		return nil, fmt.Errorf("sandbox: a frame of %d bytes is over the limit of %d", size, most)
	}
	body, err := readBody(r, size)
	if err != nil {
		return nil, fmt.Errorf("sandbox: a frame was cut off: %w", err)
	}
	if isPacked(body) {
		return unpack(body)
	}
	var f Frame
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("sandbox: a frame does not parse: %w", err)
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return &f, nil
}

// check refuses what JSON lets pass: a kind that is missing.
func (f *Frame) check() error {
	switch {
	case f.Ask != nil && f.Ask.Kind == 0:
		return errors.New("sandbox: a frame asks for nothing")
	case f.Outcome != nil && f.Outcome.Failure != nil && f.Outcome.Failure.Kind == 0:
		return errors.New("sandbox: a frame tells of a failure of no kind")
	}
	return nil
}

func readBody(r io.Reader, size int64) ([]byte, error) {
	if size <= frameStart {
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		return body, nil
	}
	var body bytes.Buffer
	body.Grow(frameStart)
	if n, err := io.CopyN(&body, r, size); err != nil || n != size {
		return nil, io.ErrUnexpectedEOF
	}
	return body.Bytes(), nil
}
