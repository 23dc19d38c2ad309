//go:build unix

package watchdog

import (
	"syscall"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
)

// endLimit is how long endTrees insists; whoever outlives it cannot be killed
// (it hangs in the kernel).
const endLimit = 2300 * time.Millisecond

// settleTime is how long after a host's death its processes are looked for,
// whether or not one is left: one that was being executed when the host died
// may get its marker only now.
const settleTime = 250 * time.Millisecond

// endTrees ends all processes of the roots and of the host's marker: SIGTERM
// to the groups, the graces, then SIGKILL to everyone. Without graces it kills
// at once. It returns, with those that it met, as soon as none is left, but
// not before settleTime has passed.
func endTrees(roots map[int]uint64, hostID string, since uint64, graces []time.Duration) []proctree.Process {
	const poll = 20 * time.Millisecond
	began := time.Now()
	met := make(map[proctree.Root]proctree.Process)
	look := func() []proctree.Process {
		snap, err := proctree.Scan(since)
		if err != nil {
			snap = onlyLeaders(roots)
		}
		members := snap.Tree(snap.OfRoots(roots, hostID))
		for _, m := range members {
			met[proctree.Root{PID: m.PID, Start: m.Start}] = m
		}
		return members
	}

	members := look()
	if len(graces) > 0 && len(members) > 0 {
		signalGroups(members, roots, syscall.SIGTERM)
		// A stopped process acts on nothing before it goes on.
		signalGroups(members, roots, syscall.SIGCONT)
		var grace time.Duration
		for _, g := range graces {
			grace += g
		}
		for until := time.Now().Add(grace); len(members) > 0 && time.Now().Before(until); {
			time.Sleep(poll)
			members = look()
		}
	}
	// Those who fork and exit all the time may be missed by one look.
	const emptyLooks = 3
	for empty := 0; (empty < emptyLooks || time.Since(began) < settleTime) && time.Since(began) < endLimit; {
		for _, m := range members {
			proctree.Stop(m) // none forks while others are killed
		}
		signalGroups(members, roots, syscall.SIGKILL)
		for _, m := range members {
			proctree.Kill(m)
		}
		if empty++; len(members) > 0 {
			empty = 0
		}
		time.Sleep(poll)
		members = look()
	}

	all := make([]proctree.Process, 0, len(met))
	for _, m := range met {
		all = append(all, m)
	}
	return all
}

// signalGroups signals the groups of ours that have a member.
func signalGroups(members []proctree.Process, roots map[int]uint64, sig syscall.Signal) {
	done := make(map[int]bool)
	for _, m := range members {
		if _, ours := roots[m.Group]; ours && !done[m.Group] {
			done[m.Group] = true
			_ = proctree.SignalGroup(m.Group, sig)
		}
	}
}

// onlyLeaders is what can be known where processes cannot be listed.
func onlyLeaders(roots map[int]uint64) proctree.Snapshot {
	var snap proctree.Snapshot
	for pid := range roots {
		if start, ok := proctree.StartTime(pid); ok {
			snap = append(snap, proctree.Process{PID: pid, Group: pid, Session: -1, Start: start})
		}
	}
	return snap
}
