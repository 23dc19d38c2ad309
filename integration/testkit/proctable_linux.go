package testkit

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Processes returns all processes of the machine, zombies included, in the
// order of their ids. One that ends meanwhile may be missing.
func Processes() ([]Proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	var procs []Proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		if p, ok := parseStat(pid, string(stat)); ok {
			procs = append(procs, p)
		}
	}
	return procs, nil
}

// parseStat reads "PID (NAME) STATE PPID PGRP …"; the name may hold anything,
// brackets too.
func parseStat(pid int, stat string) (Proc, bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return Proc{}, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) < 3 || len(fields[0]) != 1 {
		return Proc{}, false
	}
	ppid, err1 := strconv.Atoi(fields[1])
	pgid, err2 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil {
		return Proc{}, false
	}
	return Proc{PID: pid, PPID: ppid, PGID: pgid, State: fields[0][0], Name: stat[open+1 : end]}, true
}

// MarkedBy returns the live processes whose environment at their start held
// one of the marks, by their mark, in one look. Zombies have no environment and
// are not among them.
func MarkedBy(marks ...string) (map[string][]Proc, error) {
	procs, err := Processes()
	if err != nil {
		return nil, err
	}
	marked := map[string][]Proc{}
	for _, p := range procs {
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/environ")
		if err != nil || p.Zombie() {
			continue // it has ended, or belongs to another user
		}
		for v := range bytes.SplitSeq(environ, []byte{0}) {
			if mark, ok := strings.CutPrefix(string(v), MarkVariable+"="); ok {
				if slices.Contains(marks, mark) {
					marked[mark] = append(marked[mark], p)
				}
				break
			}
		}
	}
	return marked, nil
}
