package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Verify checks the chain at path over all its files. The noted heads must be
// in it. The error tells that it could not be read, or not before ctx ended; what
// is broken is in the report. A full chain has some 500 MB, which take seconds. A
// host may write meanwhile.
func Verify(ctx context.Context, path string, noted ...Head) (Report, error) {
	r, found, err := verify(ctx, path, noted)
	if err == nil {
		r.missNoted(noted, found, []Report{r})
	}
	return r, err
}

// VerifyAll is [Verify] for the chains of all hosts that have written beside
// path. A noted head must be in one of them.
func VerifyAll(ctx context.Context, path string, noted ...Head) ([]Report, error) {
	chains, err := Chains(path)
	if err != nil {
		return nil, err
	}
	all := make([]bool, len(noted))
	var reports []Report
	for _, chain := range chains {
		r, found, err := verify(ctx, chain, noted)
		if err != nil {
			return nil, err
		}
		for i := range found {
			all[i] = all[i] || found[i]
		}
		reports = append(reports, r)
	}
	if len(reports) > 0 {
		reports[0].missNoted(noted, all, reports)
	} else if len(noted) > 0 {
		r := Report{Path: path}
		r.missNoted(noted, all, nil)
		reports = append(reports, r)
	}
	return reports, nil
}

// missNoted reports the heads that were not found. A head does not say which of the
// chains it is of.
func (r *Report) missNoted(noted []Head, found []bool, chains []Report) {
	for i, h := range noted {
		if found[i] {
			continue
		}
		older := 0 // chains that may have had it and lost it to rotation
		for j := range chains {
			if chains[j].FirstSeq > max(h.Seq, 1) {
				older++
			}
		}
		why := "is not in the log: it is older than what is kept, or the log was rewritten"
		switch {
		case older == 0:
			why = "is not in the log, which was rewritten"
		case older == len(chains) && h.Seq > 0:
			why = "is older than what is kept, so it shows nothing any more; note a later one"
		}
		r.add(Break{BreakHead, r.Path, 0, "the noted head " + h.String() + " " + why})
	}
}

func (r *Report) add(b Break) {
	if len(r.Breaks) < maxListed {
		r.Breaks = append(r.Breaks, b)
	} else {
		r.MoreBreaks++
	}
}

func verify(ctx context.Context, path string, noted []Head) (Report, []bool, error) {
	const attempts = 5
	for n := 1; ; n++ {
		head, headErr := readHead(path)
		if headErr != nil && !errors.Is(headErr, errHeadDamaged) {
			return Report{}, nil, headErr
		}
		v := verifier{head: head, noted: noted, found: make([]bool, len(noted)), report: Report{
			Path: path, Files: []string{}, Gaps: []Gap{}, Breaks: []Break{},
		}}
		if err := v.read(ctx, path); err != nil {
			return Report{}, nil, err
		}
		if now, err := readHead(path); err == nil && now != nil && !now.allows(head) && n < attempts {
			continue
		}
		v.finish(path, headErr)
		return v.report, v.found, nil
	}
}

// allows says whether what was read between two looks at the head, of which h is the
// later one, can be judged by the earlier. Entries may follow an open head, but not a
// closed one, or one that is not there: a host that starts replaces it by an open one
// before it writes, and moves it to another entry a second later.
func (h *headFile) allows(earlier *headFile) bool {
	if earlier == nil {
		return false
	}
	return !earlier.Closed || h.Closed && h.Seq == earlier.Seq
}

// verifier walks over one chain.
type verifier struct {
	report Report
	head   *headFile
	noted  []Head
	found  []bool

	next    uint64 // the number that comes next; 0: no entry was seen yet
	prev    string // the hash that the next entry must name
	doubt   bool   // the entry before was changed, so the next may not fit
	oldest  uint64 // the first entry that is kept, as the last rotate entry says
	noticed string // the hash of the entry that the head file names
	holes   []hole
	odd     []Break // lines that are no entries, since the last entry
	size    int64   // of the file that the head file means; -1: it was not seen
}

// hole is a range of entries that were not where they belong.
type hole struct {
	from, to uint64
	seen     uint64 // of them, later
	at       Break
}

func (v *verifier) read(ctx context.Context, path string) error {
	all, err := openAll(path)
	if err != nil {
		return err
	}
	defer closeAll(all)
	v.size = -1
	for _, o := range all {
		v.report.Files = append(v.report.Files, o.path)
		line := 0
		for text, err := range lines(o.f) {
			if ctx.Err() != nil {
				return fmt.Errorf("read %s: %w", o.path, ctx.Err())
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read %s: %w", o.path, err)
			}
			line++
			at := Break{File: o.path, Line: line}
			r, intact, err := parse(text)
			if err != nil {
				at.Kind, at.Why = BreakChanged, "the line is no entry: it was changed, or added"
				if len(v.odd) < maxListed {
					v.odd = append(v.odd, at)
				}
				continue
			}
			v.entry(at, &r, intact)
		}
		if v.head != nil && (o.number == v.head.File || o.number == 0 && v.size < 0) {
			info, err := o.f.Stat()
			if err != nil {
				return err
			}
			v.size = info.Size()
		}
	}
	return nil
}

func (v *verifier) fail(at Break, kind BreakKind, format string, args ...any) {
	at.Kind, at.Why = kind, fmt.Sprintf(format, args...)
	v.report.add(at)
}

// entry looks at one entry.
func (v *verifier) entry(at Break, r *Record, intact bool) {
	if !intact {
		v.oddities(false)
		v.fail(at, BreakChanged, "the entry was changed: its hash is not that of its bytes")
		// Its number may be what was changed.
		if v.next == 0 {
			v.begin(r)
		}
		v.next, v.prev, v.doubt = v.next+1, r.Hash, true
		v.report.Entries++
		return
	}
	if v.next == 0 {
		v.begin(r)
		if r.Seq == 1 && r.Prev != "" {
			v.fail(at, BreakForged, "the first entry follows another one")
		}
		v.prev = r.Prev
	}
	switch {
	case r.Seq < v.next:
		v.oddities(false)
		v.fail(at, BreakReordered, "entry %d stands after entry %d", r.Seq, v.next-1)
		for i := range v.holes {
			if h := &v.holes[i]; r.Seq >= h.from && r.Seq <= h.to {
				h.seen++
			}
		}
		return
	case r.Seq > v.next:
		// Lines that are no entries may be what is missing.
		if uint64(len(v.odd)) < r.Seq-v.next && len(v.holes) < maxListed {
			v.holes = append(v.holes, hole{v.next, r.Seq - 1, 0, at})
		}
		v.oddities(false)
	default:
		fits := r.Prev == v.prev
		v.oddities(fits && (r.Kind == KindStart || r.Kind == KindGap))
		if !fits && !v.doubt {
			v.fail(at, BreakChanged, "the entry does not follow the one before: one of the two was replaced")
		}
	}
	v.adopt(at, r)
}

// begin takes the first entry that is there.
func (v *verifier) begin(r *Record) {
	v.next = r.Seq
	v.report.FirstSeq, v.report.FirstTime = r.Seq, r.Time
}

// adopt goes on from an entry.
func (v *verifier) adopt(at Break, r *Record) {
	v.next, v.prev, v.doubt = r.Seq+1, r.Hash, false
	v.report.Entries++
	v.report.LastSeq, v.report.LastTime, v.report.Head = r.Seq, r.Time, r.Hash
	if v.head != nil && r.Seq == v.head.Seq {
		v.noticed = r.Hash
	}
	for i, h := range v.noted {
		v.found[i] = v.found[i] || h.Hash == r.Hash && (h.Seq == 0 || h.Seq == r.Seq)
	}
	if r.Found != "" {
		v.fail(at, BreakHead, "a host found then that %s", r.Found)
	}
	switch r.Kind {
	case KindGap:
		v.report.Lost += r.Lost
		if len(v.report.Gaps) < maxListed {
			v.report.Gaps = append(v.report.Gaps, Gap{r.Seq, r.Time, r.Lost})
		}
	case KindRotate:
		v.oldest = r.Oldest
	default:
	}
}

// oddities decides about the lines that were no entries: torn by a crash, or not.
func (v *verifier) oddities(torn bool) {
	if torn {
		v.report.Torn += len(v.odd)
	} else {
		for _, b := range v.odd {
			v.report.add(b)
		}
	}
	v.odd = v.odd[:0]
}

// finish judges the beginning, the holes and the end.
func (v *verifier) finish(path string, headErr error) {
	r := &v.report
	v.oddities(v.head != nil && !v.head.Closed)
	if first := max(v.oldest, 1); r.FirstSeq > first {
		v.fail(Break{File: r.Files[0]}, BreakMissing, "entries %d–%d are missing at the beginning", first, r.FirstSeq-1)
	}
	for _, h := range v.holes {
		if h.seen <= h.to-h.from {
			v.fail(h.at, BreakMissing, "entries %d–%d are missing before this line%s", h.from, h.to, v.lostFiles())
		}
	}
	at := Break{File: path + headSuffix}
	last := max(v.next, 1) - 1
	switch {
	case headErr != nil:
		v.fail(at, BreakHead, "%v", headErr)
	case v.head == nil:
		// A host makes the file before the head, and may be killed in between.
		if r.Entries > 0 {
			v.fail(at, BreakHead, "the head file is missing: whether the end was cut cannot be told; a copy of the log needs it beside it, as %s", filepath.Base(at.File))
		}
	case v.head.Seq > last:
		v.fail(Break{File: path}, BreakTruncated, "entries %d–%d are missing at the end%s", last+1, v.head.Seq, v.lostFiles())
	case v.head.Seq > 0 && v.noticed != v.head.Hash:
		v.fail(at, BreakChanged, "entry %d is not the one that the head file knows", v.head.Seq)
	case v.head.Closed && last > v.head.Seq:
		v.fail(Break{File: path}, BreakForged, "entries %d–%d were added after the host had closed the log", v.head.Seq+1, last)
	case v.size < v.head.Size:
		v.fail(Break{File: path}, BreakTruncated, "the file has fewer bytes (%d) than the head file knows (%d)", max(v.size, 0), v.head.Size)
	default:
		r.AfterHead = last - v.head.Seq
	}
}

// lostFiles names files that the head file knows and that are gone. What the
// host has deleted itself is older than the first file that is there.
func (v *verifier) lostFiles() string {
	if v.head == nil {
		return ""
	}
	var gone []string
	for _, name := range v.head.Files {
		file := filepath.Join(filepath.Dir(v.report.Path), name)
		if _, err := os.Lstat(file); err != nil && !slices.Contains(v.report.Files, file) {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return fmt.Sprintf("; of the files that the head file knows, %q are gone", gone)
}
