//go:build !linux

package testkit

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const psTimeout = 10 * time.Second

// Processes returns all processes of the machine, zombies included. It needs a
// ps that knows the options of BSD and macOS.
func Processes() ([]Proc, error) {
	procs, _, err := ps()
	return procs, err
}

// MarkedBy returns the live processes of this user whose environment at their
// start held one of the marks, by their mark, in one look.
func MarkedBy(marks ...string) (map[string][]Proc, error) {
	procs, commands, err := ps()
	marked := map[string][]Proc{}
	for i, p := range procs {
		for _, mark := range marks {
			if !p.Zombie() && strings.Contains(commands[i], MarkVariable+"="+mark) {
				marked[mark] = append(marked[mark], p)
			}
		}
	}
	return marked, err
}

// ps returns the table and, for each line, the command with its environment.
func ps() ([]Proc, []string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), psTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-axwwE", "-o", "pid=,ppid=,pgid=,state=,command=").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("read the process table: %w", err)
	}
	var procs []Proc
	var commands []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		pid, err1 := strconv.Atoi(f[0])
		ppid, err2 := strconv.Atoi(f[1])
		pgid, err3 := strconv.Atoi(f[2])
		if err1 != nil || err2 != nil || err3 != nil {
			continue
		}
		procs = append(procs, Proc{PID: pid, PPID: ppid, PGID: pgid, State: f[3][0], Name: filepath.Base(f[4])})
		commands = append(commands, strings.Join(f[4:], " "))
	}
	return procs, commands, nil
}
