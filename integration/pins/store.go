package pins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/messages"
)

// Folder is the name of the folder of files in the state folder.
const Folder = "pins"

const lockName = ".lock"

// A Store is the folder in which it is written what was accepted. It has no
// state but that; any goroutine may use it, and any number of programs at once.
type Store struct{ dir string }

// NewStore returns the store in a state folder. Nothing is touched on disk
// before something is to be written.
func NewStore(stateDir string) *Store { return &Store{filepath.Join(stateDir, Folder)} }

// File is the name of a server's file.
func File(server string) string { return safename.SafeName(server) + ".json" }

// Path is the file of a server.
func (s *Store) Path(server string) string { return filepath.Join(s.dir, File(server)) }

// Server is what has been accepted of one server. It never changes. It
// implements messages.Accepted.
type Server struct {
	f         *file  // nil: nothing was accepted
	problem   string // why nothing is known
	unwritten bool   // what is in f could not be written
	alone     bool   // nor was there a file with anything before it
}

// Problem is why it is not known what was accepted, or "".
func (s *Server) Problem() string { return s.problem }

// Since is when tools of the server were accepted first; zero: never.
func (s *Server) Since() time.Time {
	if s.f == nil {
		return time.Time{}
	}
	return s.f.Since
}

// Accepted is how many definitions are accepted.
func (s *Server) Accepted() int {
	if s.f == nil {
		return 0
	}
	return len(s.f.Accepted)
}

// Pinned implements messages.Accepted. Where something was accepted and cannot
// be read, there is something to compare with all the same: nothing fits it.
func (s *Server) Pinned() bool { return s.f != nil || s.problem != "" }

// Approvals implements messages.Accepted.
func (s *Server) Approvals() int {
	if s.f == nil {
		return 0
	}
	return s.f.Approvals
}

// Unwritten says that what is known here is not on disk, since it could not be
// written.
func (s *Server) Unwritten() bool { return s.unwritten }

// Alone says that nothing is on disk of a server that is [Server.Unwritten]: what
// was accepted of it is known here alone.
func (s *Server) Alone() bool { return s.alone }

// Slim is the same without definitions, for a host that keeps it in memory; it
// cannot be shown as a diff.
func (s *Server) Slim() *Server {
	own := *s
	own.f = s.f.slim()
	return &own
}

// Load reads what was accepted of a server. It never fails: where a file is
// there and cannot be used, that is the result's Problem.
func (s *Store) Load(server string) *Server {
	path := s.Path(server)
	f, err := readFile(path, server)
	if err != nil {
		return &Server{problem: fmt.Sprintf("%s cannot be used: %v", path, err)}
	}
	return &Server{f: f}
}

// A Difference is a tool of a server's last listing that is not as it was
// accepted.
type Difference struct {
	Tool   string
	Change messages.ToolChange
	Parts  []string // of a changed one: what of it differs
	Old    *Pin     // nil: the tool is new
	New    *Pin
}

// String names the tool and what of it differs.
func (d *Difference) String() string {
	switch {
	case d.Change == messages.ToolNew:
		return d.Tool + " (new)"
	case len(d.Parts) == 0:
		return d.Tool + " (changed)"
	}
	return d.Tool + " (changed: " + strings.Join(d.Parts, ", ") + ")"
}

// Differences returns what waits for a person, by name of the tool.
func (s *Server) Differences() []Difference {
	if s.f == nil {
		return nil
	}
	list := make([]Difference, 0, len(s.f.Pending))
	for _, name := range slices.Sorted(maps.Keys(s.f.Pending)) {
		d := Difference{Tool: name, Change: messages.ToolNew, New: s.f.Pending[name]}
		if old := s.f.Accepted[name]; old != nil {
			d.Change, d.Old, d.Parts = messages.ToolAltered, old, old.Print.changed(&d.New.Print)
		}
		list = append(list, d)
	}
	return list
}

// Signs returns the tools whose texts were suspicious when they were listed last, and
// the kinds of these. What was accepted of a tool that says something else now is past.
func (s *Server) Signs() map[string][]string {
	found := map[string][]string{}
	if s.f == nil {
		return found
	}
	listed := maps.Clone(s.f.Accepted)
	maps.Copy(listed, s.f.Pending)
	for name, p := range listed {
		if len(p.Signs) > 0 {
			found[name] = p.Signs
		}
	}
	return found
}

// News is what a listing brought that was not recorded before.
type News struct {
	First       bool // nothing was accepted of the server before; now its tools are
	Tools       int  // accepted ones
	Differences []Difference
	Signs       map[string][]string // of tools that the record did not have before
}

// Accept is a listing as what is accepted, without a file.
func Accept(ts *messages.Toolset) *Server {
	f, _ := record(nil, ts, time.Now())
	return &Server{f: f.slim()}
}

// Record accepts a listing where nothing was accepted of its server yet, and
// otherwise writes down what differs. It returns what is accepted now, and News
// where the listing brought some. What cannot be written counts all the same: it is
// [Server.Unwritten], with its definitions, and whoever gets it keeps it and gives it
// as known to the next Record of the server, which compares with it and tries again.
// Without that the next listing would be accepted as a first one. Where there was
// none, known is nil.
func (s *Store) Record(ctx context.Context, ts *messages.Toolset, known *Server) (*Server, *News, error) {
	path := s.Path(ts.Server)
	unlock, err := s.lock(ctx)
	if err == nil {
		defer unlock()
	}
	f, readErr := readFile(path, ts.Server)
	if readErr != nil {
		// It is not for us to replace what a person may still mend.
		return &Server{problem: fmt.Sprintf("%s cannot be used: %v", path, readErr)}, nil, nil
	}
	again := known != nil && known.unwritten
	base, alone := f, f == nil
	if alone && again && known.alone { // else somebody deleted the file
		base = known.f
	}
	now := time.Now()
	next, news := record(base, ts, now)
	if next == f {
		return &Server{f: next.slim()}, nil, nil
	}
	if again && !known.alone && news != nil && !news.First {
		if _, untold := record(known.f, ts, now); untold == nil {
			news = nil // it was told when it could not be written
		}
	}
	if err == nil {
		err = s.write(path, next)
	}
	if err != nil {
		err = fmt.Errorf("what was accepted of the tools of %q could not be written: %w", ts.Server, err)
		return &Server{f: next, unwritten: true, alone: alone}, news, err
	}
	return &Server{f: next.slim()}, news, nil
}

// record makes the next file of a server, which is the same where there are no
// news. A server that lists nothing yet has nothing that could be accepted.
func record(f *file, ts *messages.Toolset, now time.Time) (*file, *News) {
	room := maxDefinitions
	if f == nil && len(ts.Tools) == 0 {
		return nil, nil
	}
	if f == nil {
		next := &file{Version: fileVersion, Server: ts.Server, Since: now.UTC(), Accepted: make(map[string]*Pin, len(ts.Tools))}
		news := &News{First: true, Signs: map[string][]string{}}
		for _, t := range ts.Tools {
			if t == nil || next.Accepted[t.Name] != nil {
				continue // of several of one name the first counts
			}
			p := newPin(t.Raw, &room)
			next.Accepted[t.Name] = p
			if len(p.Signs) > 0 {
				news.Signs[t.Name] = p.Signs
			}
		}
		news.Tools = len(next.Accepted)
		return next, news
	}
	pending := map[string]*Pin{}
	same := true
	news := &News{Tools: len(f.Accepted), Signs: map[string][]string{}}
	seen := make(map[string]bool, len(ts.Tools))
	for _, t := range ts.Tools {
		if t == nil || seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		if old := f.Accepted[t.Name]; old != nil && old.is(t.Raw) {
			continue
		}
		p := newPin(t.Raw, &room)
		pending[t.Name] = p
		if before := f.Pending[t.Name]; before == nil || before.Print != p.Print {
			same = false
			if len(p.Signs) > 0 {
				news.Signs[t.Name] = p.Signs
			}
		}
	}
	if same && len(pending) == len(f.Pending) {
		return f, nil
	}
	next := *f
	next.Pending, next.Seen = pending, now.UTC()
	if len(pending) == 0 {
		next.Pending, next.Seen = nil, time.Time{}
	}
	news.Differences = (&Server{f: &next}).Differences()
	return &next, news
}

// is reports whether a definition as a server wrote it says the same.
func (p *Pin) is(raw []byte) bool {
	return p.raw == hashOf(raw) || p.Print == PrintOf(raw)
}

// ErrChanged says that a tool changed once more since it was looked at.
var ErrChanged = errors.New("it changed once more since it was shown; look at it again")

// Approve accepts definitions that wait, given as what was shown of each: those
// that changed since then stay as they are, and the error is [ErrChanged]. A
// server all of whose tools are as accepted can be approved too; that tells
// running hosts that what they hold back for another instance of it is fine.
func (s *Store) Approve(ctx context.Context, server string, shown []Difference) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	path := s.Path(server)
	f, err := readFile(path, server)
	switch {
	case err != nil:
		return fmt.Errorf("%s cannot be used and was left as it is: %w", path, err)
	case f == nil:
		return fmt.Errorf("nothing is known of the tools of %q yet", server)
	}
	next := *f
	next.Accepted, next.Pending = maps.Clone(f.Accepted), maps.Clone(f.Pending)
	for _, d := range shown {
		now := f.Pending[d.Tool]
		if now == nil || now.Print != d.New.Print {
			return fmt.Errorf("%s of %s was not accepted: %w", d.Tool, server, ErrChanged)
		}
		next.Accepted[d.Tool] = now
		delete(next.Pending, d.Tool)
	}
	next.Approved = time.Now().UTC()
	next.Approvals++
	return s.write(path, &next)
}

// Forget deletes what was accepted of a server. That nothing was is no error.
func (s *Store) Forget(ctx context.Context, server string) error {
	path := s.Path(server)
	if !s.Has(server) {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Has says whether there is a file of a server.
func (s *Store) Has(server string) bool {
	_, err := os.Lstat(s.Path(server))
	return err == nil
}

func (s *Store) write(path string, f *file) error {
	text, err := f.encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600)
}

// lock makes others wait who want to change a file; the folder is made.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	release, err := lockedfile.Lock(ctx, filepath.Join(s.dir, lockName), lockedfile.Patience)
	if err != nil {
		return nil, err
	}
	return func() { _ = release() }, nil // the kernel frees it at the latest with the program
}

// Servers returns the servers of which something was accepted, by name.
// Files that cannot be read are in problems.
func (s *Store) Servers() (servers []string, problems []string, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		name, err := ownerOf(path)
		if err == nil && s.Path(name) != path {
			err = fmt.Errorf("it is of the server %q", name)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s cannot be used: %v", path, err))
			continue
		}
		servers = append(servers, name)
	}
	slices.Sort(servers)
	return servers, problems, nil
}

// A ToolState is a tool of which something is known.
type ToolState struct {
	Tool   string              `json:"tool"`
	Change messages.ToolChange `json:"change,omitempty"` // "": it was as accepted when the server listed it last
	Parts  []string            `json:"parts,omitempty"`
	Signs  []string            `json:"suspicious,omitempty"`
	Hash   string              `json:"hash"` // the beginning, of the newest definition
}

// Tools returns the accepted and the waiting tools by name.
func (s *Server) Tools() []ToolState {
	if s.f == nil {
		return nil
	}
	var list []ToolState
	for name, p := range s.f.Accepted {
		if s.f.Pending[name] == nil {
			list = append(list, ToolState{Tool: name, Signs: p.Signs, Hash: p.Short()})
		}
	}
	for _, d := range s.Differences() {
		list = append(list, ToolState{Tool: d.Tool, Change: d.Change, Parts: d.Parts, Signs: d.New.Signs, Hash: d.New.Short()})
	}
	slices.SortFunc(list, func(a, b ToolState) int { return strings.Compare(a.Tool, b.Tool) })
	return list
}
