package worker

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// meter tells how large the process is. It may be used from several goroutines.
type meter struct {
	statm *os.File // nil: there is none
	fd    uintptr
}

func newMeter() *meter {
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return &meter{}
	}
	return &meter{statm: f, fd: f.Fd()}
}

// wakeMonitor wakes the thread of the Go runtime that takes the processor from a
// goroutine which does not give it up, or a script that computes would keep its watch
// from running. That thread sleeps while nothing runs, up to a minute, and what wakes it
// is a system call that the runtime knows of: those of package rawio are none, and a
// worker that has waited for its script makes no other. From then on it wakes for the
// watch's ticker.
func wakeMonitor() { _, _, _ = syscall.Syscall(syscall.SYS_GETPID, 0, 0, 0) }

// goFirst makes the kernel end this process before any other one where memory
// is short: it holds nothing but a script, and perhaps it is what took it all.
func goFirst() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) } // without /proc there is the watch

// field returns one number of statm in bytes, 0 where it is not known.
func (m *meter) field(n int) int64 {
	if m.statm == nil {
		return 0
	}
	buf := make([]byte, 256)
	// Without telling the scheduler, as package rawio does: it would wake the
	// runtime's monitor each time, which then looks around for a while.
	got, _, errno := syscall.RawSyscall6(syscall.SYS_PREAD64, m.fd, uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0, 0) //nolint:gosec // the kernel fills buf
	runtime.KeepAlive(buf)
	if errno != 0 || got == 0 || got > uintptr(len(buf)) {
		return 0
	}
	fields := bytes.Fields(buf[:got])
	if n >= len(fields) {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[n]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// resident is what of the process is in memory.
func (m *meter) resident() int64 { return m.field(1) }

// data is what RLIMIT_DATA counts.
func (m *meter) data() int64 { return m.field(5) }
