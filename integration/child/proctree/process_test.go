package proctree_test

import (
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/integration/child/proctree"
)

func pids(list []proctree.Process) []int {
	var out []int
	for _, p := range list {
		out = append(out, p.PID)
	}
	slices.Sort(out)
	return out
}

var snap = proctree.Snapshot{
	{PID: 1, PPID: 0, Group: 1, Session: 1, Start: 1},
	{PID: os.Getpid(), PPID: 1, Group: 50, Session: 50, Start: 5, Marker: "h.1"},
	{PID: 90, PPID: 80, Group: 90, Session: 90, Start: 14}, // grandchild, listed before its parent
	{PID: 60, PPID: 1, Group: 60, Session: 50, Start: 10, Marker: "h.1"},
	{PID: 61, PPID: 60, Group: 60, Session: 50, Start: 11},
	{PID: 80, PPID: 61, Group: 80, Session: 80, Start: 13},
	{PID: 95, PPID: 1, Group: 95, Session: 80, Start: 15}, // orphan in the session of 80
	{PID: 70, PPID: 1, Group: 70, Session: 70, Start: 12, Marker: "h.2"},
	{PID: 71, PPID: 1, Group: 71, Session: 50, Start: 12, Marker: "hh.1"},
	{PID: 41, PPID: 1, Group: 40, Session: 50, Start: 9},
	{PID: 42, PPID: 1, Group: 40, Session: 50, Start: 3},
	{PID: 45, PPID: 1, Group: 44, Session: 44, Start: 9}, // its shell is gone
	{PID: 30, PPID: 1, Group: 30, Session: 30, Start: 20},
	{PID: 31, PPID: 30, Group: 30, Session: 30, Start: 21},
}

func TestTree(t *testing.T) {
	for _, c := range []struct {
		name  string
		roots map[int]uint64
		host  string
		want  []int
	}{
		{"nothing", nil, "", nil},
		{"a marker and all descendants", nil, "h", []int{60, 61, 70, 80, 90, 95}},
		{"a root", map[int]uint64{60: 10}, "", []int{60, 61, 80, 90, 95}},
		{"a root whose leader is gone keeps its group", map[int]uint64{40: 8}, "", []int{41}},
		{"a number that was reused", map[int]uint64{30: 7}, "", nil},
		{"a number that another session got, whose leader is gone", map[int]uint64{44: 8}, "", nil},
		{"never the first process or this one", map[int]uint64{1: 1, 50: 1}, "", nil},
	} {
		if got := pids(snap.Tree(snap.OfRoots(c.roots, c.host))); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestOfHost(t *testing.T) {
	for _, c := range []struct {
		marker, host string
		want         bool
	}{
		{"abc.12", "abc", true},
		{"abcd.12", "abc", false},
		{"abc", "abc", false},
		{"", "", false},
		{".1", "", false},
		{proctree.Marker("x", 7), "x", true},
	} {
		if got := proctree.OfHost(c.marker, c.host); got != c.want {
			t.Errorf("OfHost(%q, %q) = %v", c.marker, c.host, got)
		}
	}
}

// TestScannerShares: every caller gets a snapshot that holds this process.
func TestScannerShares(t *testing.T) {
	start, ok := proctree.StartTime(os.Getpid())
	if !ok {
		return // a platform without process lists
	}
	var s proctree.Scanner
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			snap, err := s.Scan()
			if err != nil || !slices.ContainsFunc(snap, func(p proctree.Process) bool {
				return p.PID == os.Getpid() && p.Start == start && p.PPID == os.Getppid()
			}) {
				t.Errorf("a snapshot of %d processes without this one: %v", len(snap), err)
			}
		})
	}
	all.Wait()
}
