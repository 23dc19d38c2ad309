// Package rawio reads and writes descriptors that never wait, such as pipes
// with O_NONBLOCK, without telling Go's scheduler of the system call.
//
// A call to os.File or package unix prepares for waiting: it gives the
// processor up for the time of the call, and where the program was idle it
// wakes the runtime's monitor thread, which then wakes again every 20 µs. A
// gateway that passes one small message at a time is idle between any two of
// them, and pays for this at every read and write: with it a call through
// metamcp took 50 µs of processor time instead of 35 (docs/BENCHMARKS.md).
// A call that cannot wait needs none of it.
//
// Large transfers keep a processor busy for as long as they copy, so they go
// the ordinary way. Systems other than Linux have no raw calls worth using.
package rawio

// largest is up to how many bytes are read or written without telling the
// scheduler; the kernel copies them in some microseconds.
const largest = 64 << 10
