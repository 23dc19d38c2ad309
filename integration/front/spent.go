package front

import "sync"

// keptStates is how many of the states that were given out last can still be
// used; older ones are refused as used ones are.
const keptStates = 1 << 20

// spent numbers the states that are given out, and remembers which came back: each
// may be used once. It costs a bit for each of the last keptStates. The zero value
// is ready; it is safe for any goroutine.
type spent struct {
	mu   sync.Mutex
	next uint64   // the number of the next one
	bits []uint64 // by number, modulo keptStates
}

// issue returns a number that nothing had before.
func (s *spent) issue() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.next
	s.next++
	if s.bits == nil {
		s.bits = make([]uint64, keptStates/64)
	}
	word, bit := place(n)
	s.bits[word] &^= bit
	return n
}

// use takes a number, and says whether it could be used.
func (s *spent) use(n uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n >= s.next || s.next-n > keptStates {
		return false
	}
	word, bit := place(n)
	if s.bits[word]&bit != 0 {
		return false
	}
	s.bits[word] |= bit
	return true
}

func place(n uint64) (word int, bit uint64) {
	at := n % keptStates
	return int(at / 64), 1 << (at % 64)
}
