package jsonrpc

// Valid says whether b is one strict JSON text, with nothing but space around
// it. The error is nil or a [*SyntaxError].
func Valid(b []byte) error {
	s := scanner{b: b}
	if s.text(nil) < 0 {
		return s.err()
	}
	return nil
}

// Scan calls f for each member of obj, in order. key is the name without
// quotes and unescaped; val is the raw value without the space around it.
// Both alias obj or are of no use after f returned: f must copy a key that it
// keeps. Scan stops at the first error of f and returns it.
//
// obj should be known to be valid; what is not an object or is broken ends in
// a [*SyntaxError], possibly after calls of f.
func Scan(obj []byte, f func(key, val []byte) error) error {
	return members(obj, func(key []byte, _, start, end int) error {
		return f(key, obj[start:end:end])
	})
}

// members is Scan with positions instead of values; from is where the name begins, with
// its quote.
func members(obj []byte, f func(key []byte, from, start, end int) error) error {
	s := scanner{b: obj}
	i := s.space(0)
	if i >= len(obj) || obj[i] != '{' {
		s.fail(i, whatNoObject)
		return s.err()
	}
	if i = s.space(i + 1); i < len(obj) && obj[i] == '}' {
		return s.rest(i + 1)
	}
	for {
		if i >= len(obj) || obj[i] != '"' {
			s.fail(i, whatKey)
			return s.err()
		}
		k := i + 1
		if i = s.skipString(k); i < 0 {
			return s.err()
		}
		key := obj[k : i-1 : i-1]
		if hasEscape(key) {
			key = unescape(nil, key)
		}
		if i = s.space(i); i >= len(obj) || obj[i] != ':' {
			s.fail(i, whatColon)
			return s.err()
		}
		v := s.space(i + 1)
		if i = s.skip(v); i < 0 {
			return s.err()
		}
		if err := f(key, k-1, v, i); err != nil {
			return err
		}
		next, more := s.next(i, '}', whatObject)
		if !more {
			if next < 0 {
				return s.err()
			}
			return s.rest(next)
		}
		i = next
	}
}

// Elements calls f for each element of arr, in order, with its raw value
// without the space around it. The rules are those of [Scan].
func Elements(arr []byte, f func(el []byte) error) error {
	s := scanner{b: arr}
	i := s.space(0)
	if i >= len(arr) || arr[i] != '[' {
		s.fail(i, whatNoArray)
		return s.err()
	}
	if i = s.space(i + 1); i < len(arr) && arr[i] == ']' {
		return s.rest(i + 1)
	}
	for {
		v := i
		if i = s.skip(v); i < 0 {
			return s.err()
		}
		if err := f(arr[v:i:i]); err != nil {
			return err
		}
		next, more := s.next(i, ']', whatArray)
		if !more {
			if next < 0 {
				return s.err()
			}
			return s.rest(next)
		}
		i = next
	}
}

// Get returns the raw value of the member of obj that is called name, the last
// one where there are several, or nil where there is none or obj is no valid
// object.
func Get(obj []byte, name string) []byte {
	start, end, ok := Index(obj, name)
	if !ok {
		return nil
	}
	return obj[start:end:end]
}

// Index returns where in obj the raw value that [Get] returns begins and ends,
// so that it can be replaced in place; ok is false where Get returns nil.
func Index(obj []byte, name string) (start, end int, ok bool) {
	err := members(obj, func(key []byte, _, from, to int) error {
		if string(key) == name {
			start, end, ok = from, to, true
		}
		return nil
	})
	if err != nil {
		return 0, 0, false
	}
	return start, end, ok
}

// Without returns obj without its members that are called name; what is left of it is
// byte for byte as it was. Where there is none, or obj is no valid object, it is obj
// itself.
func Without(obj []byte, name string) []byte {
	kept, found := []byte{'{'}, false
	err := members(obj, func(key []byte, from, _, end int) error {
		if string(key) == name {
			found = true
			return nil
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, obj[from:end]...)
		return nil
	})
	if err != nil || !found {
		return obj
	}
	return append(kept, '}')
}

// next reads what follows a member or element: a comma, behind which the next
// one begins, or the closing bracket.
func (s *scanner) next(i int, closing byte, what fault) (at int, more bool) {
	i = s.space(i)
	if i < len(s.b) {
		switch s.b[i] {
		case ',':
			return s.space(i + 1), true
		case closing:
			return i + 1, false
		}
	}
	return s.fail(i, what), false
}

// rest is the error of a walk that came to the end of the value: nil, unless
// something follows.
func (s *scanner) rest(i int) error {
	if i = s.space(i); i < len(s.b) {
		s.fail(i, whatTrailing)
		return s.err()
	}
	return nil
}
