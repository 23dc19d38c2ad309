package proctree

import (
	"sync"
	"time"
)

// Use is what a process and its descendants take. A process whose parent has
// ended is no descendant any more.
type Use struct {
	Processes int
	Memory    int64         // resident bytes; pages that are shared count for each
	CPU       time.Duration // of those that live, since each began
}

// process is one line of the system's table.
type process struct {
	pid, parent int
	memory      int64
	cpu         time.Duration
}

// Sampler looks at the processes of the system, at most once in a while however
// many ask. Its zero value is ready; it is safe for any goroutine.
type Sampler struct {
	mu    sync.Mutex
	taken time.Time
	last  *Sample
}

// fresh is how long a sample is good for everyone who asks.
const fresh = 500 * time.Millisecond

// Sample is the table of processes at one moment.
type Sample struct {
	At       time.Time
	by       map[int]process
	children map[int][]int
}

// Take returns a sample that is at most half a second old; nil where the system
// does not tell.
func (s *Sampler) Take() *Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || time.Since(s.taken) > fresh {
		s.last, s.taken = take(), time.Now()
	}
	return s.last
}

func take() *Sample {
	list := processes()
	if list == nil {
		return nil
	}
	s := &Sample{At: time.Now(), by: make(map[int]process, len(list)), children: map[int][]int{}}
	for _, p := range list {
		s.by[p.pid] = p
		s.children[p.parent] = append(s.children[p.parent], p.pid)
	}
	return s
}

// Of adds up the trees of these processes; each process counts once.
func (s *Sample) Of(roots ...int) (u Use) {
	if s == nil {
		return u
	}
	seen := map[int]bool{}
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		p, ok := s.by[pid]
		if !ok || seen[pid] {
			continue
		}
		seen[pid] = true
		u.Processes++
		u.Memory += p.memory
		u.CPU += p.cpu
		queue = append(queue[:len(queue):len(queue)], s.children[pid]...)
	}
	return u
}

// Only is one process without those that it started.
func (s *Sample) Only(pid int) (u Use) {
	if s == nil {
		return u
	}
	if p, ok := s.by[pid]; ok {
		u = Use{Processes: 1, Memory: p.memory, CPU: p.cpu}
	}
	return u
}
