// Package stdio keeps the worker's standard output for the protocol. It does
// so while it is initialised: github.com/kelindar/search loads llama.cpp when
// it is initialised, and what llama.cpp prints must not reach the protocol.
//
// Go initialises packages in the order of their import paths, each as soon as
// all that it imports is ready. This one imports next to nothing and so comes
// before kelindar/search, which waits for fmt and os; a test of
// index/embed/local has llama.cpp print at that moment and would fail otherwise.
package stdio

// Output returns the file descriptor, on Windows the handle, of what was
// standard output when the program began. Whatever prints to standard output
// since reaches standard error. The error says why it could not be kept.
func Output() (uintptr, error) { return output, failure }

var output, failure = take()
