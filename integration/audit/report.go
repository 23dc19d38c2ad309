package audit

import "time"

// BreakKind names how a chain is broken.
type BreakKind string

// The kinds of breaks.
const (
	BreakChanged   BreakKind = "changed"   // an entry is not what was written
	BreakMissing   BreakKind = "missing"   // entries are not there
	BreakReordered BreakKind = "reordered" // an entry stands in the wrong place, or twice
	BreakTruncated BreakKind = "truncated" // the end was cut
	BreakForged    BreakKind = "forged"    // something was added that no host wrote
	BreakHead      BreakKind = "head"      // the head file or a noted head does not fit
)

// Break is one place where a chain is broken.
type Break struct {
	Kind BreakKind `json:"kind"`
	File string    `json:"file"`
	Line int       `json:"line,omitempty"` // from 1; 0: the file as a whole
	Why  string    `json:"why"`
}

// Gap is a place where the log itself says that entries were lost.
type Gap struct {
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Lost uint64    `json:"lost"`
}

// maxListed bounds the breaks and gaps that a report lists.
const maxListed = 100

// Report is what [Verify] found.
type Report struct {
	Path      string    `json:"path"`
	Files     []string  `json:"files"` // oldest first
	Entries   uint64    `json:"entries"`
	FirstSeq  uint64    `json:"firstSeq"` // more than 1 where old files were deleted
	LastSeq   uint64    `json:"lastSeq"`
	FirstTime time.Time `json:"firstTime,omitzero"`
	LastTime  time.Time `json:"lastTime,omitzero"`
	Head      string    `json:"head"` // hash of the last entry
	// AfterHead counts entries that are later than the head file: the host
	// runs, or was killed.
	AfterHead uint64 `json:"afterHead"`
	// Torn counts pieces of lines that a crash left behind; that is no break.
	Torn   int     `json:"torn"`
	Lost   uint64  `json:"lost"` // by all gaps
	Gaps   []Gap   `json:"gaps"` // the first 100
	Breaks []Break `json:"breaks"`
	// MoreBreaks are those that Breaks leaves out.
	MoreBreaks int `json:"moreBreaks,omitempty"`
}

// Whole reports whether nothing is broken.
func (r *Report) Whole() bool { return len(r.Breaks) == 0 }
