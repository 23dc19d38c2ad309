package proctree

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// tick is one of USER_HZ, of which there are 100 a second on every architecture that Go runs on.
const tick = time.Second / 100

// processes reads the table; nil where /proc cannot be read.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close() // only read
	if err != nil {
		return nil
	}
	list := make([]process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(pid, text); ok {
			list = append(list, p)
		}
	}
	return list
}

// parseStat reads /proc/PID/stat, in which the name stands in brackets and may
// hold anything.
func parseStat(pid int, text []byte) (p process, ok bool) {
	_, rest, found := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
	if !found {
		return p, false
	}
	// The fields behind the name, from the third of the whole line on.
	const parent, user, system, resident = 1, 11, 12, 21
	fields := bytes.Fields(rest)
	if len(fields) <= resident {
		return p, false
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return process{
		pid: pid, parent: int(number(parent)),
		memory: number(resident) * int64(os.Getpagesize()),
		cpu:    time.Duration(number(user)+number(system)) * tick,
	}, true
}
