package limits

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Memory says how short memory is, by the control group (version 2) that this
// process is in and by the kernel's account of who waits for memory.
type Memory struct {
	// Groups is where control groups are mounted, Proc the process file system.
	Groups, Proc string
	// Percent of the group's limit from which memory is short.
	Percent int
}

// MemoryOf looks at this machine; percent is [Memory.Percent].
func MemoryOf(percent int) Memory {
	return Memory{Groups: "/sys/fs/cgroup", Proc: "/proc", Percent: percent}
}

const (
	// pressureShare is the share of time, in percent of the last ten seconds, in
	// which something waited for memory, from which memory is short.
	pressureShare = 20
	// pressureEvery is the time between two looks.
	pressureEvery = 2 * time.Second
)

// Short returns why memory is short, "" where it is not or where nothing tells.
func (m Memory) Short() string {
	for group := m.group(); group != ""; group = parent(group) {
		if why := m.full(filepath.Join(m.Groups, group)); why != "" {
			return why
		}
	}
	for _, file := range []string{filepath.Join(m.Groups, m.group(), "memory.pressure"), filepath.Join(m.Proc, "pressure", "memory")} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if share := some10(string(text)); share >= pressureShare {
			return fmt.Sprintf("something waited for memory %.0f %% of the last ten seconds", share)
		}
		break // the group's own account is the better one
	}
	return ""
}

// group is the path of this process's group below Groups, "" where it has none of
// version 2.
func (m Memory) group() string { return ownGroup(m.Proc) }

func parent(group string) string {
	if group == "/" {
		return ""
	}
	return filepath.Dir(group)
}

// full says whether a group uses more of its limit than it should. Files that the
// kernel may drop at any time do not count.
func (m Memory) full(dir string) string {
	limit, ok := number(filepath.Join(dir, "memory.max"))
	used, known := number(filepath.Join(dir, "memory.current"))
	if !ok || !known || limit == 0 {
		return ""
	}
	if text, err := os.ReadFile(filepath.Join(dir, "memory.stat")); err == nil {
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "inactive_file "); ok {
				if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
					used -= min(used, n)
				}
			}
		}
	}
	if m.Percent <= 0 || float64(used) < float64(limit)*float64(m.Percent)/100 {
		return ""
	}
	return fmt.Sprintf("%d of %d MB of the control group's memory are used", used>>20, limit>>20)
}

// number reads a file with one number; "max" is none.
func number(file string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// some10 is avg10 of the line that begins with some.
func some10(text string) float64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "some" {
			continue
		}
		value, _ := strings.CutPrefix(fields[1], "avg10=")
		share, _ := strconv.ParseFloat(value, 64)
		return share
	}
	return 0
}

// Watch calls short with the reason whenever a look finds memory short, until ctx
// ends.
func (m Memory) Watch(ctx context.Context, short func(why string)) {
	m.watch(ctx, pressureEvery, short)
}

func (m Memory) watch(ctx context.Context, every time.Duration, short func(why string)) {
	if m.Percent <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ctx.Err() != nil {
				return // both were due
			}
			if why := m.Short(); why != "" {
				short(why)
			}
		}
	}
}

// Kills counts the processes that the kernel of this machine has ended because
// memory ran out; ok is false where it does not tell.
func Kills() (n uint64, ok bool) { return kills("/proc") }

func kills(proc string) (uint64, bool) {
	text, err := os.ReadFile(filepath.Join(proc, "vmstat"))
	if err != nil {
		return 0, false
	}
	_, rest, found := strings.Cut(string(text), "\noom_kill ")
	if !found {
		return 0, false
	}
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseUint(value, 10, 64)
	return n, err == nil
}
