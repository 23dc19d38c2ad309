package remote

import (
	"errors"
	"io"
)

// pile collects what comes in parts without copying it again and again, as a
// slice that grows does: beside what it holds, it needs a part that is not full
// and, once, what bytes returns.
type pile struct {
	parts [][]byte
	n     int
}

// lastPart is the size of the largest part; each is as large as all before it.
const lastPart = 1 << 20

// room returns where the next bytes go, of which there are about so many; grow
// says how many were put there.
func (p *pile) room(about int) []byte {
	if last := len(p.parts) - 1; last >= 0 && len(p.parts[last]) < cap(p.parts[last]) {
		part := p.parts[last]
		return part[len(part):cap(part)]
	}
	part := make([]byte, 0, min(max(p.n, about), lastPart))
	p.parts = append(p.parts, part)
	return part[:cap(part)]
}

func (p *pile) grow(n int) {
	last := len(p.parts) - 1
	p.parts[last] = p.parts[last][:len(p.parts[last])+n]
	p.n += n
}

func (p *pile) add(b []byte) {
	for len(b) > 0 {
		n := copy(p.room(len(b)), b)
		p.grow(n)
		b = b[n:]
	}
}

// bytes returns all that was added and empties the pile.
func (p *pile) bytes() []byte {
	parts, n := p.parts, p.n
	*p = pile{}
	if len(parts) == 1 {
		return parts[0]
	}
	whole := make([]byte, 0, n)
	for i, part := range parts {
		whole = append(whole, part...)
		parts[i] = nil // its memory may be wanted for the next
	}
	return whole
}

// readWhole reads to the end of r. It returns errTooLarge where there are more
// than limit bytes, and then holds none of them.
func readWhole(r io.Reader, limit int) ([]byte, error) {
	const firstPart = 4 << 10 // enough for most messages
	var p pile
	for {
		n, err := r.Read(p.room(firstPart))
		p.grow(n)
		switch {
		case p.n > limit:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return p.bytes(), nil
		case err != nil:
			return nil, err
		}
	}
}
