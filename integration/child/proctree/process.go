package proctree

import "os"

// Process is one running process; zombies are never reported, since nothing
// is left of them that could be ended.
type Process struct {
	PID, PPID, Group, Session int
	// Start tells two processes with the same PID apart. Its unit is the
	// platform's: clock ticks since boot on Linux, microseconds since 1970 on
	// darwin.
	Start uint64
	// Name is the short name of the executable.
	Name string
	// Marker is the value of [MarkerVar] in its environment, "" where there is
	// none or it could not be read.
	Marker string
	kernel bool // one of the kernel's own threads; told on Linux only
}

// Snapshot is all processes at one moment.
type Snapshot []Process

// Root is the leader of a process group of ours.
type Root struct {
	PID   int
	Start uint64
}

// Tree returns the processes for which seed says yes and all their
// descendants that are known from parents and sessions. This process and the
// first process of the system are never among them.
func (s Snapshot) Tree(seed func(p *Process) bool) []Process {
	self := os.Getpid()
	in := make([]bool, len(s))
	pids := make(map[int]bool)
	var found []Process
	add := func(i int) {
		in[i] = true
		pids[s[i].PID] = true
		found = append(found, s[i])
	}
	for i := range s {
		if p := &s[i]; p.PID > 1 && p.PID != self && seed(p) {
			add(i)
		}
	}
	for grown := len(found) > 0; grown; {
		grown = false
		for i := range s {
			p := &s[i]
			if !in[i] && p.PID > 1 && p.PID != self && (pids[p.PPID] || pids[p.Session]) {
				add(i)
				grown = true
			}
		}
	}
	return found
}

// OfRoots returns the seed for a set of group leaders and a host's marker:
// the leaders themselves where their start times match, the members of their
// groups unless the group's number belongs to a newer process by now or is that of
// its session (the leader of a group of ours can begin none, so that number was
// reused), and every process that carries the marker of the host. An empty hostID
// matches no marker.
func (s Snapshot) OfRoots(roots map[int]uint64, hostID string) func(p *Process) bool {
	reused := make(map[int]bool)
	for i := range s {
		if start, ok := roots[s[i].PID]; ok && start != s[i].Start {
			reused[s[i].PID] = true
		}
	}
	return func(p *Process) bool {
		if OfHost(p.Marker, hostID) {
			return true
		}
		if start, ok := roots[p.PID]; ok {
			return start == p.Start
		}
		start, ok := roots[p.Group]
		return ok && p.Session != p.Group && !reused[p.Group] && p.Start >= start
	}
}
