package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// officialMeta is the key below _meta under which a registry speaks of an entry.
const officialMeta = "io.modelcontextprotocol.registry/official"

// Bounds on what one answer may hold; more is left out and said.
const (
	maxPageEntries = 1000 // the registry sends at most 100
	maxCursor      = 4096
	maxEntry       = 256 << 10 // bytes; entries have a few thousand
	maxEntryParts  = 20_000    // see parts; entries have a few dozen
	maxPageParts   = 200_000
)

// parts is how many values a JSON text has at most, beside itself. One of three bytes
// is decoded to some hundred, so that it is parts that cost memory, and not bytes.
func parts(raw []byte) int {
	return bytes.Count(raw, []byte{','}) + bytes.Count(raw, []byte{'{'}) + bytes.Count(raw, []byte{'['})
}

// tooLarge says why an entry is not looked at; nil: it is. That comes before anything
// else, as the bounds on what may be in it are looked at once it is decoded.
func tooLarge(raw []byte) error {
	switch {
	case len(raw) > maxEntry:
		return fmt.Errorf("it is larger than %d KiB", maxEntry>>10)
	case parts(raw) > maxEntryParts:
		return fmt.Errorf("it has more than %d parts", maxEntryParts)
	}
	return nil
}

// official is what a registry says of an entry.
type official struct {
	Status        string    `json:"status,omitempty"`
	StatusMessage string    `json:"statusMessage,omitempty"`
	PublishedAt   time.Time `json:"publishedAt,omitzero"`
	UpdatedAt     time.Time `json:"updatedAt,omitzero"`
	IsLatest      bool      `json:"isLatest,omitempty"`
}

// page is one answer of a list.
type page struct {
	servers []Server
	next    string // cursor of the page behind it; "": there is none
	notes   []string
	size    int // in memory, about
}

// decodePage reads a list. The error says what is wrong with all of it; what is
// wrong with one entry, or with the cursor, is in the notes.
func decodePage(body []byte) (*page, error) {
	var envelope struct {
		Servers  json.RawMessage `json:"servers"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return nil, notJSON(body, err)
	}
	if len(envelope.Servers) == 0 {
		return nil, badAnswer("the answer has no list of servers")
	}
	p := &page{}
	raw, cut, err := elements(envelope.Servers, maxPageEntries)
	if err != nil {
		return nil, badAnswer("the servers in the answer are not a list")
	}
	if cut {
		p.notes = append(p.notes, fmt.Sprintf("a page had more than %d servers; the rest was left out", maxPageEntries))
	}
	var skipped int
	var why string
	left := maxPageParts
	for i, one := range raw {
		err := tooLarge(one)
		var s *Server
		if err == nil {
			if left -= parts(one); left < 0 {
				p.notes = append(p.notes, fmt.Sprintf("the entries of a page had more than %d parts; those after the first %d were left out", maxPageParts, i))
				break
			}
			s, err = decodeRecord(one)
		}
		if err != nil {
			if skipped++; why == "" {
				why = err.Error()
			}
			continue
		}
		p.add(s, one)
	}
	if skipped > 0 {
		p.notes = append(p.notes, fmt.Sprintf("%d of %d entries are not valid and were left out; the first one: %s", skipped, len(raw), why))
	}
	if note := p.cursor(envelope.Metadata); note != "" {
		p.notes = append(p.notes, note)
	}
	return p, nil
}

// add takes an entry, which was decoded from raw.
func (p *page) add(s *Server, raw []byte) {
	const ofObject, ofPart = 256, 32
	p.servers = append(p.servers, *s)
	p.size += len(raw) + ofObject*bytes.Count(raw, []byte{'{'}) + ofPart*parts(raw)
}

func (p *page) cursor(raw json.RawMessage) (note string) {
	var meta struct {
		NextCursor *string `json:"nextCursor"`
	}
	switch {
	case len(raw) == 0:
		return ""
	case json.Unmarshal(raw, &meta) != nil:
		return "the registry does not say in a known way whether there is more"
	case meta.NextCursor == nil:
		return ""
	case len(*meta.NextCursor) > maxCursor:
		return "the registry's cursor is too long to be followed; there may be more servers"
	}
	p.next = *meta.NextCursor
	return ""
}

// elements splits a JSON array without reading what is in it; cut says that
// there were more.
func elements(raw json.RawMessage, most int) (list []json.RawMessage, cut bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	open, err := dec.Token()
	if err != nil {
		return nil, false, err
	}
	if open != json.Delim('[') {
		return nil, false, fmt.Errorf("%v is no array", open)
	}
	for dec.More() {
		if len(list) == most {
			return list, true, nil
		}
		var one json.RawMessage
		if err := dec.Decode(&one); err != nil {
			return nil, false, err
		}
		list = append(list, one)
	}
	return list, false, nil
}

// decodeRecord reads and checks one entry.
func decodeRecord(raw []byte) (*Server, error) {
	// What the registry adds may be in another shape elsewhere; the server must
	// not be.
	var outer struct {
		Server json.RawMessage            `json:"server"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &outer); err != nil {
		return nil, shapeError(err)
	}
	if len(outer.Server) == 0 {
		return nil, errors.New("it has no server")
	}
	var o official
	odd := false
	if meta := outer.Meta[officialMeta]; len(meta) > 0 && json.Unmarshal(meta, &o) != nil {
		o, odd = official{}, true
	}
	var s Server
	if err := json.Unmarshal(outer.Server, &s); err != nil {
		return nil, shapeError(err)
	}
	s.StatusMessage = cleanText(o.StatusMessage, maxMessage)
	s.PublishedAt, s.UpdatedAt, s.Latest = o.PublishedAt, o.UpdatedAt, o.IsLatest
	switch {
	case odd:
		s.Status, s.StatusMessage = Deprecated, "what the registry says of its status cannot be read"
	case o.Status == "", o.Status == string(Active):
		s.Status = Active
	case o.Status == string(Deleted):
		s.Status = Deleted
	default:
		s.Status = Deprecated
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return &s, nil
}

// encode is the opposite of decodeRecord.
func (s *Server) encode() (json.RawMessage, error) {
	return json.Marshal(struct {
		Server *Server             `json:"server"`
		Meta   map[string]official `json:"_meta"`
	}{s, map[string]official{officialMeta: {string(s.Status), s.StatusMessage, s.PublishedAt, s.UpdatedAt, s.Latest}}})
}

// shapeError says in a few words where JSON has another shape than it should.
func shapeError(err error) error {
	var shape *json.UnmarshalTypeError
	if errors.As(err, &shape) {
		where := shape.Field
		if where == "" {
			where = "the entry"
		}
		return fmt.Errorf("%s is a %s", cleanText(where, maxName), shape.Value)
	}
	return fmt.Errorf("it cannot be read (%s)", cleanText(err.Error(), maxName))
}

// notJSON explains a body that is not JSON at all.
func notJSON(body []byte, err error) *Error {
	start := strings.ToLower(string(bytes.TrimSpace(body[:min(len(body), 512)])))
	if strings.HasPrefix(start, "<") {
		return badAnswer("the answer is a web page, not JSON; a proxy or a login page may stand between")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return badAnswer("the answer is empty")
	}
	e := badAnswer("the answer is not the JSON of a registry")
	e.Cause = err
	return e
}
