package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/child/proctree"
)

// leftover is a process on the list of a host that is dead.
type leftover struct{ host, pid int }

// maxJournal bounds what is read of a journal of children.
const maxJournal = 16 << 20

// readLeftovers reads the journals that the watchdog package keeps, and ends
// nothing. Journals of other boots and of other containers say nothing here.
func readLeftovers(ctx context.Context, dir string) ([]leftover, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var left []leftover
	for _, e := range entries {
		name := e.Name()
		if ctx.Err() != nil || !strings.HasPrefix(name, "host-") || !strings.HasSuffix(name, ".journal") {
			continue
		}
		text, err := readBounded(filepath.Join(dir, name), maxJournal)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its host has just ended
		}
		if err != nil {
			return nil, err
		}
		left = append(left, journalLeftovers(string(text))...)
	}
	slices.SortFunc(left, func(a, b leftover) int { return a.pid - b.pid })
	return left, nil
}

// journalLeftovers are the processes of a journal that live though their host
// does not: lines of "host PID START ID BOOT NAMESPACE", "add PID START MARKER"
// and "del PID START".
func journalLeftovers(text string) []leftover {
	var host process
	known := false
	trees := map[int]process{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		pid, pidErr := strconv.Atoi(words[1])
		start, startErr := strconv.ParseUint(words[2], 10, 64)
		if pidErr != nil || startErr != nil || pid < 1 {
			continue
		}
		switch this := (process{pid, start}); words[0] {
		case "host":
			if len(words) != 6 || unset(words[4]) != proctree.BootID() || unset(words[5]) != proctree.Namespace() {
				return nil
			}
			host, known = this, true
		case "add":
			trees[pid] = this
		case "del":
			if trees[pid] == this {
				delete(trees, pid)
			}
		}
	}
	if !known || host.alive() {
		return nil
	}
	var left []leftover
	for _, t := range trees {
		if t.alive() {
			left = append(left, leftover{host.pid, t.pid})
		}
	}
	return left
}

// unset is the empty word that a journal writes as "-".
func unset(word string) string {
	if word == "-" {
		return ""
	}
	return word
}

// process is told from a later one of the same id by its start.
type process struct {
	pid   int
	start uint64
}

func (p process) alive() bool {
	start, ok := proctree.StartTime(p.pid)
	return ok && start == p.start
}
