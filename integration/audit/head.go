package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/regular"
)

// Head is the end of a chain: one that was noted outside shows, with [Verify],
// that nothing up to it was rewritten.
type Head struct {
	Seq  uint64 // 0: not known
	Hash string
}

// String returns SEQ:HASH, which [ParseHead] reads.
func (h Head) String() string { return strconv.FormatUint(h.Seq, 10) + ":" + h.Hash }

// ParseHead reads SEQ:HASH, or HASH alone. What stands behind it and a space, as
// metamcp audit head prints the file there, does not count.
func ParseHead(text string) (Head, error) {
	const digits = 64
	text, _, _ = strings.Cut(strings.TrimSpace(text), " ")
	seq, sum, both := strings.Cut(text, ":")
	var h Head
	if both {
		n, err := strconv.ParseUint(seq, 10, 64)
		if err != nil || n == 0 {
			return h, fmt.Errorf("the head %q does not begin with the number of an entry; use what metamcp audit head prints", text)
		}
		h.Seq = n
	} else {
		sum = text
	}
	if len(sum) != digits || strings.Trim(sum, "0123456789abcdef") != "" {
		return h, fmt.Errorf("the head %q does not hold 64 hexadecimal digits; use what metamcp audit head prints", text)
	}
	h.Hash = sum
	return h, nil
}

// maxHeadFile is the most that a head file may have, in bytes: it names every file
// of the chain.
const maxHeadFile = 16 << 20

// headFile is what stands in PATH.head. It is replaced after the log was
// synced, so a log never ends before its head unless somebody cut it.
type headFile struct {
	V    int    `json:"v"`
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
	// Closed: a host ended in order with this entry, so nothing may follow
	// before the next host has said here that it writes.
	Closed bool     `json:"closed"`
	File   uint64   `json:"file"`  // the number that the written file gets when it is rotated
	Size   int64    `json:"size"`  // bytes in it
	Files  []string `json:"files"` // names of all files of the chain, oldest first
}

// readHead returns nil where there is none.
func readHead(path string) (*headFile, error) {
	text, _, err := regular.Read(path+headSuffix, maxHeadFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the head of the audit log: %w", err)
	}
	h := &headFile{}
	if err := json.Unmarshal(text, h); err != nil || h.V != Version {
		return nil, fmt.Errorf("%w: %s", errHeadDamaged, path+headSuffix)
	}
	return h, nil
}

var errHeadDamaged = errors.New("the head file is damaged")

// write replaces the head file in one step. The new one has a fixed name, since
// only the holder of the chain's lock writes it and a crash must not leave more
// than one behind.
func (h *headFile) write(path string) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	name := path + headSuffix
	f, err := regular.Open(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// CurrentHead returns the last entry of the chain at path, which may be later
// than its head file says while a host writes.
func CurrentHead(path string) (Head, error) {
	e, err := findEnd(path)
	if err != nil {
		return Head{}, err
	}
	if e.last.Seq == 0 {
		return Head{}, fmt.Errorf("the audit log %s has no entries yet", path)
	}
	return e.last, nil
}
