//go:build unix

package watchdog

import (
	"strconv"
	"strings"
)

// The verbs of records. A record is one line of words; the pipe and the
// journal carry the same ones.
const (
	verbAdd  = "add"  // PID START MARKER
	verbDel  = "del"  // PID START
	verbDog  = "dog"  // PID START: a watchdog of this host
	verbHost = "host" // PID START HOSTID BOOT NAMESPACE: first line of a journal
	verbBye  = "bye"
)

// none stands for an empty word.
const none = "-"

type record struct {
	verb   string
	pid    int
	start  uint64
	marker string // of add; the host's id of host
	boot   string
	space  string
}

func (r record) String() string {
	words := []string{r.verb}
	if r.verb != verbBye {
		words = append(words, strconv.Itoa(r.pid), strconv.FormatUint(r.start, 10))
	}
	switch r.verb {
	case verbAdd:
		words = append(words, word(r.marker))
	case verbHost:
		words = append(words, word(r.marker), word(r.boot), word(r.space))
	}
	return strings.Join(words, " ") + "\n"
}

func word(s string) string {
	if s == "" || strings.ContainsAny(s, " \n") {
		return none
	}
	return s
}

// parseRecord returns false for a line that is broken in any way; the number
// of a process that must never be signalled is broken too.
func parseRecord(line string) (r record, ok bool) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return r, false
	}
	r.verb = words[0]
	want := map[string]int{verbAdd: 4, verbDel: 3, verbDog: 3, verbHost: 6, verbBye: 1}[r.verb]
	if want == 0 || len(words) != want {
		return r, false
	}
	if r.verb == verbBye {
		return r, true
	}
	var err error
	if r.pid, err = strconv.Atoi(words[1]); err != nil || r.pid < 1 || r.pid == 1 && r.verb != verbHost {
		return r, false
	}
	if r.start, err = strconv.ParseUint(words[2], 10, 64); err != nil {
		return r, false
	}
	unword := func(i int) string {
		if words[i] == none {
			return ""
		}
		return words[i]
	}
	switch r.verb {
	case verbAdd:
		r.marker = unword(3)
	case verbHost:
		r.marker, r.boot, r.space = unword(3), unword(4), unword(5)
	}
	return r, true
}

// list is what is on record: start times by the id of the leader.
type list map[int]record

// apply takes one record into the list and reports whether it was the goodbye.
func (l list) apply(r record) (bye bool) {
	switch r.verb {
	case verbAdd:
		l[r.pid] = r
	case verbDel:
		if l[r.pid].start == r.start {
			delete(l, r.pid)
		}
	case verbBye:
		return true
	}
	return false
}

func (l list) roots() map[int]uint64 {
	roots := make(map[int]uint64, len(l))
	for pid, r := range l {
		roots[pid] = r.start
	}
	return roots
}
