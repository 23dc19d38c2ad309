package worker

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// meter tells how large the process is. It may be used from several goroutines.
type meter struct{}

func newMeter() *meter { return &meter{} }

// memoryCounters is PROCESS_MEMORY_COUNTERS.
type memoryCounters struct {
	size, faults                                                 uint32
	peakWorkingSet, workingSet                                   uintptr
	quotaPeakPaged, quotaPaged, quotaPeakNonPaged, quotaNonPaged uintptr
	pagefile, peakPagefile                                       uintptr
}

var getMemoryInfo = windows.NewLazySystemDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")

func (*meter) resident() int64 {
	var c memoryCounters
	c.size = uint32(unsafe.Sizeof(c))
	if ok, _, _ := getMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&c)), uintptr(c.size)); ok == 0 {
		return 0
	}
	return int64(c.workingSet)
}

// cpuTime is what the process has used of the processors so far; 0 where that is not
// known.
func cpuTime() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) != nil {
		return 0
	}
	const tick = 100 * time.Nanosecond
	ticks := func(f windows.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * tick
	}
	return ticks(kernel) + ticks(user)
}

// wakeMonitor is for systems where package rawio has no calls that the runtime does not
// know of.
func wakeMonitor() {}

// goFirst is for systems that have a way to ask for it.
func goFirst() {}
