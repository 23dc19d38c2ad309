// Package kernel is the one place that knows protoactor-go. The actors of
// metamcp see a small surface: an [Actor] receives one message at a time, a
// [Context] that is valid only while it does, timers that arrive as messages,
// and a [System] that spawns, sends and stops.
//
// What the kernel leaves out, it leaves out on purpose: futures (they lose
// waiters and take two replies), stashes, bounded mailboxes, receive timeouts,
// routers and middleware propagation are broken in the version of protoactor
// that can be had. Answers travel through reply ports, waiters are kept by the
// actor that needs them, and deadlines are timers of the actor's own.
//
// Every message passes [System.Send] and the same receiver, so a [Tracer]
// installed with [System.SetTracer] sees all of them; without one the cost is
// one atomic load a message.
package kernel
