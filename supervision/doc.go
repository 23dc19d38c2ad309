// Package supervision decides who may live, who waits and who dies: error
// classes, the circuit breaker and its backoff, the pool of places, the
// termination ladder, the five states of a connection and the directives of
// supervisors.
//
// The deciding types are plain values without goroutines, timers or locks.
// Time comes in as an argument, chance as a function, and what is to be done
// goes out as a value, so that every decision can be replayed in a test. None
// of them is safe for concurrent use: the actor that owns one is its only
// caller.
package supervision
