package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/metamcp/metamcp/integration/regular"
)

// maxLine bounds the lines that are read; the log writes none that is nearly
// as long.
const maxLine = 1 << 20

// lines yields the lines of a file without their newlines, and whether they
// had one. A line is valid until the next; of one that is too long the
// beginning is given, which is no entry.
func lines(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		b := bufio.NewReaderSize(r, 64<<10)
		var line []byte
		for {
			part, err := b.ReadSlice('\n')
			if len(line)+len(part) <= maxLine+1 {
				line = append(line, part...)
			}
			switch {
			case errors.Is(err, bufio.ErrBufferFull):
			case err == nil:
				if !yield(bytes.TrimSuffix(line, []byte("\n")), nil) {
					return
				}
				line = line[:0]
			case errors.Is(err, io.EOF):
				if len(line) > 0 {
					yield(line, io.EOF)
				}
				return
			default:
				yield(nil, err)
				return
			}
		}
	}
}

// opened is one opened file of a chain.
type opened struct {
	numbered
	f *os.File
}

// openAll opens the files of a chain, oldest first. A host may rotate them
// meanwhile: then it looks again.
func openAll(path string) ([]opened, error) {
	const attempts = 20
	for n := 1; ; n++ {
		before, err := listFiles(path)
		if err != nil {
			return nil, err
		}
		var all []opened
		for _, n := range before {
			f, openErr := regular.Open(n.path, os.O_RDONLY)
			if openErr != nil {
				err = openErr
				break
			}
			all = append(all, opened{n, f})
		}
		after, listErr := listFiles(path)
		if err == nil && listErr == nil && slices.Equal(before, after) {
			return all, nil
		}
		closeAll(all)
		switch {
		case listErr != nil:
			return nil, listErr
		case err != nil && (!errors.Is(err, os.ErrNotExist) || n == attempts):
			return nil, err // at last a link that leads nowhere
		case n == attempts:
			return nil, fmt.Errorf("the files of the audit log %s change faster than they are read; try again", path)
		}
	}
}

func closeAll(all []opened) {
	for _, o := range all {
		_ = o.f.Close() // read only
	}
}

// Records yields the entries of the chain at path, oldest first, and leaves
// out lines that are no entries. It does not judge the chain: see [Verify]. It
// ends with the first error.
func Records(path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		all, err := openAll(path)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer closeAll(all)
		for _, o := range all {
			for line, err := range lines(o.f) {
				if err != nil && !errors.Is(err, io.EOF) {
					yield(Record{}, err)
					return
				}
				r, _, err := parse(line)
				if err != nil {
					continue
				}
				r.Raw = bytes.Clone(line)
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

// end is where a chain stops, and what was wrong with it.
type end struct {
	last   Head   // what the next entry follows
	found  string // "": nothing is wrong
	number uint64 // of the file that is written
	oldest uint64 // the first entry that must still be there
}

// findEnd finds the last entry and compares it with the head file, so that a
// host which carries on does not cover up what was cut before.
func findEnd(path string) (end, error) {
	head, headErr := readHead(path)
	if headErr != nil && !errors.Is(headErr, errHeadDamaged) {
		return end{}, headErr
	}
	all, err := openAll(path)
	if err != nil {
		return end{}, err
	}
	defer closeAll(all)
	e := end{number: 1, oldest: 1}
	written := false // more than the file itself
	for _, o := range all {
		e.number = max(e.number, o.number+1)
		first, err := firstIn(o.f)
		if err != nil {
			return end{}, err
		}
		info, err := o.f.Stat()
		if err != nil {
			return end{}, err
		}
		written = written || info.Size() > 0
		if first.Kind == KindRotate {
			e.oldest = first.Oldest
		}
	}
	var noted string // the hash of the entry that the head names
	for _, o := range slices.Backward(all) {
		if err := tail(o.f, func(r *Record) bool {
			if e.last.Seq == 0 {
				e.last = Head{r.Seq, r.Hash}
			}
			if head != nil && r.Seq == head.Seq {
				noted = r.Hash
			}
			return head != nil && r.Seq > head.Seq
		}); err != nil {
			return end{}, err
		}
		if e.last.Seq > 0 && (head == nil || noted != "") {
			break
		}
	}
	size, err := writtenSize(all)
	if err != nil {
		return end{}, err
	}
	switch {
	case headErr != nil:
		e.found = headErr.Error()
	case head == nil:
		if written {
			e.found = "the head file was missing: whether the end was cut cannot be told"
		}
	case head.Seq > e.last.Seq:
		e.found = fmt.Sprintf("the end was cut: the last entry was %d, the head file knows %d", e.last.Seq, head.Seq)
	case head.Seq > 0 && noted != head.Hash:
		e.found = fmt.Sprintf("entry %d was not the one that the head file knows", head.Seq)
	case head.Closed && e.last.Seq > head.Seq:
		e.found = fmt.Sprintf("entries after %d were added while no host was running", head.Seq)
	case head.File == e.number && (size < head.Size || head.Closed && size > head.Size):
		e.found = fmt.Sprintf("the file had %d bytes, the head file knows %d", size, head.Size)
	}
	if head != nil {
		e.number = max(e.number, head.File)
		if head.Seq >= e.last.Seq {
			e.last = Head{head.Seq, head.Hash}
		}
	}
	return e, nil
}

// writtenSize is the size of the file that is written; 0: there is none.
func writtenSize(all []opened) (int64, error) {
	if len(all) == 0 || all[len(all)-1].number != 0 {
		return 0, nil
	}
	info, err := all[len(all)-1].f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// tail gives the intact entries at the end of a file to see, the last one
// first, until it returns false.
func tail(f *os.File, see func(*Record) bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	const most = 2 * maxLine
	from := max(0, info.Size()-most)
	text := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(text, from); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for len(text) > 0 {
		at := bytes.LastIndexByte(text, '\n') + 1
		line := text[at:]
		text = text[:max(0, at-1)]
		if r, intact, err := parse(line); err == nil && intact && !see(&r) {
			return nil
		}
	}
	return nil
}

// firstOf returns the first entry of a file; Seq is 0 where it has none.
func firstOf(path string) (Record, error) {
	f, err := regular.Open(filepath.Clean(path), os.O_RDONLY)
	if err != nil {
		return Record{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	return firstIn(f)
}

func firstIn(f *os.File) (Record, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Record{}, err
	}
	for line, err := range lines(f) {
		if err != nil && !errors.Is(err, io.EOF) {
			return Record{}, err
		}
		if r, _, err := parse(line); err == nil {
			return r, nil
		}
	}
	return Record{}, nil
}
