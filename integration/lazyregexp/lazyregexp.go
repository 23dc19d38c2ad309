// Package lazyregexp compiles regular expressions when they are first needed.
// A program that starts for every client must not compile hundreds that most
// of its runs never use.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that gives the compiled expression; it may be called
// from any goroutine. The first call panics where the expression is none, which
// is a fault of the program.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
