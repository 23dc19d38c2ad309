package worker

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// meter tells how large the process is. It may be used from several goroutines.
type meter struct{ statm *os.File }

func newMeter() *meter {
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return &meter{}
	}
	return &meter{statm: f}
}

// goFirst makes the kernel end this process before any other one where memory
// is short: it holds nothing but a script, and perhaps it is what took it all.
func goFirst() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) } // without /proc there is the watch

// field returns one number of statm in bytes, 0 where it is not known.
func (m *meter) field(n int) int64 {
	if m.statm == nil {
		return 0
	}
	buf := make([]byte, 256)
	got, err := syscall.Pread(int(m.statm.Fd()), buf, 0)
	if err != nil || got <= 0 {
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
