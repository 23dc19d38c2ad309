package pins

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/messages"
)

func hashOf(raw []byte) [sha256.Size]byte { return sha256.Sum256(raw) }

// Review implements messages.Accepted.
func (s *Server) Review(ts *messages.Toolset, mode messages.PinMode) *messages.Review {
	r := &messages.Review{Problem: s.problem}
	if s.f == nil && s.problem == "" || mode == messages.PinsOff {
		return r
	}
	r.Unrecorded, r.Unwritten = s.unwritten, s.unwritten
	seen := make(map[string]bool, len(ts.Tools))
	waiting := 0
	for _, t := range ts.Tools {
		if t == nil || seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		one := s.reviewTool(t, mode)
		if one == nil {
			continue
		}
		if one.Change != "" {
			waiting++
			if before := s.f.Pending[t.Name]; before == nil || !before.is(t.Raw) {
				r.Unrecorded = true
			}
		}
		if r.Tools == nil {
			r.Tools = map[string]*messages.ToolReview{}
		}
		r.Tools[t.Name] = one
	}
	if s.f != nil && waiting != len(s.f.Pending) {
		r.Unrecorded = true
	}
	return r
}

// reviewTool returns what is to be said of one tool, or nil.
func (s *Server) reviewTool(t *messages.Tool, mode messages.PinMode) *messages.ToolReview {
	hold := mode == messages.PinsHold
	if s.f == nil {
		if signs := Signs(t.Raw); hold || len(signs) > 0 {
			return &messages.ToolReview{Signs: signs, Held: hold, Problem: s.problem}
		}
		return nil
	}
	old := s.f.Accepted[t.Name]
	if old != nil && old.raw == hashOf(t.Raw) {
		signs := old.Signs
		if len(t.Raw) > maxExamined && !slices.Contains(signs, SignUnexamined) {
			signs = Signs(t.Raw) // recorded when less was said of long ones
		}
		if len(signs) == 0 {
			return nil
		}
		return &messages.ToolReview{Signs: signs}
	}
	one := &messages.ToolReview{Signs: Signs(t.Raw)}
	switch p := PrintOf(t.Raw); {
	case old == nil:
		one.Change, one.Held = messages.ToolNew, hold
	case old.Print != p:
		one.Change, one.Parts, one.Held = messages.ToolAltered, old.Print.changed(&p), hold
	case len(one.Signs) == 0:
		return nil
	}
	return one
}

// ownerOf reads whose file it is, without the rest of it.
func ownerOf(path string) (string, error) {
	const enough = 8 << 10
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	f, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	dec := json.NewDecoder(io.LimitReader(f, enough))
	broken := errors.New("it is not what metamcp writes there")
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return "", broken
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			break
		}
		if name, ok := value.(string); ok && key == "server" && name != "" {
			return name, nil
		}
	}
	return "", broken
}
