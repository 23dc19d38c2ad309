package testkit

import (
	"bytes"
	"sync"
)

const tailBytes = 256 << 10

// Tail keeps the last 256 KiB of what is written to it. It may be used from
// any goroutine.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails and never blocks.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*tailBytes {
		t.buf = append([]byte(nil), t.buf[len(t.buf)-tailBytes:]...)
	}
	return len(p), nil
}

// String returns what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf[max(0, len(t.buf)-tailBytes):])
}

// Contains tells whether text is in what is kept.
func (t *Tail) Contains(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Contains(t.buf, []byte(text))
}
