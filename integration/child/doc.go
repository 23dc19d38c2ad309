// Package child runs MCP servers as processes: it starts them, carries lines
// between their pipes and one receiver, signals their whole process trees and
// reaps them.
//
// A child costs three goroutines while it lives (the reader of stdout, the
// drain of stderr, the reaper) and a fourth while bytes wait for its stdin;
// where the platform allows it none of them holds a thread or a buffer while
// nothing happens.
//
// The package knows nothing of actors, of the protocol's methods or of
// retries: it reports what happened and leaves the judgement to its caller.
package child
