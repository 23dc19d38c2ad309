package proctree

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// environLimit bounds what is read of one process's environment.
const environLimit = 1 << 20

const (
	// listings is how often a scan asks for new processes at most.
	listings = 5
	// execPatience is how long a scan waits for those that are just becoming another
	// program, and execLook is how often it looks. Until then nobody can tell whose
	// they are, and on a busy machine that takes a while.
	execPatience = 100 * time.Millisecond
	execLook     = time.Millisecond
)

// Scan lists all processes. Markers are read for those only that started at
// or after since. A process that ends during the scan is left out; one that was
// started meanwhile is looked for, so that whoever forks and exits all the time
// does not slip between the list and the look. An error means that /proc itself
// could not be read.
func Scan(since uint64) (Snapshot, error) {
	names, err := list()
	if err != nil {
		return nil, err
	}
	s := survey{snap: make(Snapshot, 0, len(names)), buf: make([]byte, 4096), since: since, seen: make(map[string]bool, len(names)), bare: map[string]bool{}}
	began := time.Now()
	for n := 1; ; n++ {
		changing := s.look(names, time.Since(began) < execPatience)
		if names, err = list(); err != nil {
			return nil, err
		}
		fresh := slices.ContainsFunc(names, func(name string) bool { return isPID(name) && !s.seen[name] })
		switch {
		case changing:
			time.Sleep(execLook)
		case n >= listings || !fresh:
			return s.snap, nil
		}
	}
}

// survey is one scan while it goes on.
type survey struct {
	snap  Snapshot
	buf   []byte
	since uint64
	seen  map[string]bool
	bare  map[string]bool // those that had arguments and no environment
}

func list() ([]string, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if len(names) > 0 {
		err = nil
	}
	return names, err
}

func isPID(name string) bool { return name[0] >= '0' && name[0] <= '9' }

// look adds the processes of the names that were not seen yet. With patience it leaves
// out those that are just becoming another program, and says that there is one.
func (s *survey) look(names []string, patience bool) (changing bool) {
	for _, name := range names {
		if !isPID(name) || s.seen[name] {
			continue
		}
		p, ok := parseStat(readInto(&s.buf, "/proc/"+name+"/stat", 4096))
		if ok && p.Start >= s.since {
			environ := readInto(&s.buf, "/proc/"+name+"/environ", environLimit)
			if patience && !p.kernel && isEmpty(environ) && s.becoming(name) {
				changing = true
				continue
			}
			p.Marker = findMarker(environ)
		}
		s.seen[name] = true
		if ok {
			s.snap = append(s.snap, p)
		}
	}
	return changing
}

// becoming says that a process without an environment seems to have none yet: it has no
// arguments either, or had not been looked at twice.
func (s *survey) becoming(name string) bool {
	if isEmpty(readInto(&s.buf, "/proc/"+name+"/cmdline", 1)) {
		return true
	}
	again := s.bare[name]
	s.bare[name] = true
	return !again
}

// kernelThread is the flag of the kernel's own threads, which have neither arguments
// nor an environment: PF_KTHREAD of its include/linux/sched.h.
const kernelThread = 0x00200000

// isEmpty says that a file could be read, and that nothing is in it.
func isEmpty(content []byte) bool { return content != nil && len(content) == 0 }

// StartTime returns the start time of a running process; false where there is
// none or where it is a zombie.
func StartTime(pid int) (uint64, bool) {
	buf := make([]byte, 1024)
	p, ok := parseStat(readInto(&buf, "/proc/"+strconv.Itoa(pid)+"/stat", 4096))
	return p.Start, ok
}

// BootID tells boots apart, since start times count from the boot; "" where
// the kernel does not say.
func BootID() string {
	buf := make([]byte, 64)
	return string(bytes.TrimSpace(readInto(&buf, "/proc/sys/kernel/random/boot_id", 64)))
}

// Namespace names the PID namespace of this process: PIDs of another one mean
// nothing here. "" where it cannot be read.
func Namespace() string {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return ns
}

// readInto reads a file of /proc with as few system calls as it takes. It does
// not go through os.File, whose registration with the poller costs more than
// the read.
func readInto(buf *[]byte, path string, limit int) []byte {
	fd, err := openFile(path)
	if err != nil {
		return nil
	}
	defer func() { _ = syscall.Close(fd) }()
	n := 0
	for {
		if n == len(*buf) {
			if n >= limit {
				return (*buf)[:n]
			}
			*buf = append(*buf, make([]byte, len(*buf))...)
		}
		m, err := syscall.Read(fd, (*buf)[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil || m <= 0 {
			return (*buf)[:n]
		}
		n += m
	}
}

func openFile(path string) (int, error) {
	for {
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}

// parseStat reads /proc/PID/stat. The name may hold blanks and parentheses, so
// the fields are counted from the last closing one.
func parseStat(stat []byte) (Process, bool) {
	var p Process
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || end < open {
		return p, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	if err != nil {
		return p, false
	}
	p.PID, p.Name = pid, string(stat[open+1:end])
	const first, flags, start = 3, 9, 22
	rest := stat[end+1:]
	for field := first; field <= start; field++ {
		rest = bytes.TrimLeft(rest, " ")
		word := rest
		if i := bytes.IndexByte(rest, ' '); i >= 0 {
			word, rest = rest[:i], rest[i:]
		} else {
			rest = nil
		}
		switch field {
		case 3:
			if len(word) == 0 || word[0] == 'Z' || word[0] == 'X' {
				return p, false
			}
		case 4:
			p.PPID, err = strconv.Atoi(string(word))
		case 5:
			p.Group, err = strconv.Atoi(string(word))
		case 6:
			p.Session, err = strconv.Atoi(string(word))
		case flags:
			var n uint64
			n, err = strconv.ParseUint(string(word), 10, 64)
			p.kernel = n&kernelThread != 0
		case start:
			p.Start, err = strconv.ParseUint(string(word), 10, 64)
		}
		if err != nil {
			return p, false
		}
	}
	return p, true
}

func findMarker(environ []byte) string {
	const key = MarkerVar + "="
	for len(environ) > 0 {
		end := bytes.IndexByte(environ, 0)
		if end < 0 {
			end = len(environ)
		}
		if entry := environ[:end]; len(entry) > len(key) && string(entry[:len(key)]) == key {
			return string(entry[len(key):])
		}
		environ = environ[min(end+1, len(environ)):]
	}
	return ""
}
