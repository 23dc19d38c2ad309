package worker

import (
	"unsafe"

	lib "modernc.org/libquickjs"
)

const (
	// maxSites bounds the places that are remembered.
	maxSites = 64
	// maxSiteFrames is from how many frames on a place is not remembered.
	maxSiteFrames = 12
)

// site is where a script calls: where each of its functions on the stack is.
// The engine's addresses of instructions are in use as long as their function
// lives, which sites see to.
type site [maxSiteFrames]uintptr

// sites remember the stacks of places from which a script has called. An error
// of a call tells where that was, and only the moment of the call knows; but to
// write a stack takes the engine as long as the call itself, and a loop calls
// from one place.
type sites struct {
	n      *native
	stacks map[site]lib.TJSValue // strings
	error  lib.TJSValue          // the constructor
}

// here is the stack of who calls now, a string that the caller owns; false: an
// exception is pending.
func (s *sites) here() (lib.TJSValue, bool) {
	where, known := s.find()
	if stack, ok := s.stacks[where]; known && ok {
		return s.n.dup(stack), true
	}
	e := lib.XJS_CallConstructor(s.n.tls, s.n.context, s.error, 0, 0)
	if s.n.failed() {
		return e, false
	}
	defer s.n.free(e)
	stack := lib.XJS_GetPropertyStr(s.n.tls, s.n.context, e, s.n.stack)
	if s.n.failed() {
		return stack, false
	}
	if known && len(s.stacks) < maxSites {
		s.keep()
		s.stacks[where] = s.n.dup(stack)
	}
	return stack, true
}

// frames are those of the engine's functions in JavaScript, innermost first.
func (s *sites) frames(yield func(*lib.TJSStackFrame) bool) {
	for p := at[lib.TJSRuntime](s.n.runtime).Fcurrent_stack_frame; p != 0; {
		f := at[lib.TJSStackFrame](p)
		if compiled(f.Fcur_func) && !yield(f) {
			return
		}
		p = f.Fprev_frame
	}
}

// find tells where the script is; false: too deep.
func (s *sites) find() (where site, ok bool) {
	i := 0
	for f := range s.frames {
		if i == len(where) {
			return where, false
		}
		where[i] = f.Fcur_pc
		i++
	}
	return where, true
}

// keep holds the functions on the stack for good.
func (s *sites) keep() {
	for f := range s.frames {
		s.n.dup(f.Fcur_func)
	}
}

// compiled tells of a function whether it is one of JavaScript.
func compiled(f lib.TJSValue) bool {
	object := *(*uintptr)(unsafe.Pointer(&f)) //nolint:gosec // a value begins with its pointer
	switch at[lib.TJSObject](object).Fclass_id {
	case lib.EJS_CLASS_BYTECODE_FUNCTION, lib.EJS_CLASS_GENERATOR_FUNCTION, lib.EJS_CLASS_ASYNC_FUNCTION, lib.EJS_CLASS_ASYNC_GENERATOR_FUNCTION:
		return true
	}
	return false
}
