package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/lockedfile"
)

// FileName is the name of the file in the state folder.
const FileName = "secrets.json"

const (
	// MaxValue bounds a value, in bytes.
	MaxValue = 64 << 10
	maxName  = 128
	maxFile  = 16 << 20
	maxCount = 10_000
)

// Place says where a secret is kept.
type Place string

// The places of a secret.
const (
	InKeyring Place = "keyring"
	InFile    Place = "file"
)

// ErrNotFound says that there is no secret of that name.
var ErrNotFound = errors.New("there is no secret of that name")

// ErrLost says that a secret is in the store, and that the keyring, which can be
// used, does not have it.
var ErrLost = errors.New("was kept in the keyring and is not there any more")

// Store is the secrets of one state folder. Its methods are safe for any
// goroutine, and for several processes at once.
type Store struct {
	dir  string
	ring keyring
}

// New returns the store of a state folder, which need not be there yet.
func New(stateDir string) *Store { return &Store{dir: stateDir, ring: systemKeyring(stateDir)} }

// Path is the file of the store.
func (s *Store) Path() string { return filepath.Join(s.dir, FileName) }

// Entry is one secret without its value.
type Entry struct {
	Name    string
	Place   Place
	Changed time.Time
}

// record is one secret in the file.
type record struct {
	Place   Place     `json:"in"`
	Value   string    `json:"value,omitempty"` // where it is in the file
	Changed time.Time `json:"changed"`
}

// content is the file.
type content struct {
	Version int               `json:"version"`
	Secrets map[string]record `json:"secrets"`
}

const version = 1

// CheckName says what is wrong with the name of a secret, or nil.
func CheckName(name string) error {
	good := name != "" && len(name) <= maxName
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		good = good && (letter || i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '.'))
	}
	if !good {
		return fmt.Errorf("a secret's name has letters, digits, _, - and ., at most %d of them, and begins with a letter or _", maxName)
	}
	return nil
}

// NameFor is a good name for a secret that is wanted as a variable, an argument or a
// package of that name: the same one as far as it can be.
func NameFor(wanted string) string {
	const longest = 50 // bytes, which leaves room for more
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, wanted[:min(len(wanted), longest)])
	if name = strings.TrimRight(strings.TrimLeft(name, "_.-0123456789"), "_.-"); name == "" {
		return "SECRET"
	}
	return name
}

// checkValue says what is wrong with a value, without it.
func checkValue(value string) error {
	switch {
	case value == "":
		return errors.New("the value is empty")
	case len(value) > MaxValue:
		return fmt.Errorf("the value has more than %d KiB", MaxValue>>10)
	case strings.IndexByte(value, 0) >= 0:
		return errors.New("the value holds a NUL byte")
	case !utf8.ValidString(value):
		// Another value would be stored, and nobody told.
		return errors.New("the value is no text (UTF-8); store it as base64, for what reads it to decode")
	}
	return nil
}

// Get returns the value of a secret. The error is [ErrNotFound], or [ErrLost], or
// says why the file or the keyring cannot be used.
func (s *Store) Get(name string) (string, error) {
	text, err := s.Read()
	if err != nil {
		return "", err
	}
	p, err := s.Parse(text)
	if err != nil {
		return "", err
	}
	return p.Get(name)
}

// Read returns what the file of the store has, and nil where there is none.
func (s *Store) Read() ([]byte, error) { return s.file().Read() }

// Parse understands what Read returned, for who wants many secrets: the file is
// read and decoded once for all of them.
func (s *Store) Parse(text []byte) (*Snapshot, error) {
	c, err := s.decode(text)
	if err != nil {
		return nil, err
	}
	return &Snapshot{s, c}, nil
}

// Snapshot is a store as its file was at one moment. Its methods are safe for any
// goroutine.
type Snapshot struct {
	store   *Store
	content *content
}

// Get is [Store.Get]. A secret that is kept in the keyring is asked for there with
// each call.
func (p *Snapshot) Get(name string) (string, error) {
	r, ok := p.content.Secrets[name]
	if !ok {
		return "", ErrNotFound
	}
	if r.Place == InFile {
		return r.Value, nil
	}
	return p.store.fromKeyring(name)
}

func (s *Store) fromKeyring(name string) (string, error) {
	value, err := s.ring.get(name)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", fmt.Errorf("the secret %s %w; store it again with metamcp secrets set %s", name, ErrLost, name)
	case err != nil:
		return "", fmt.Errorf("the secret %s is in the keyring, which cannot be used: %w", name, err)
	}
	return value, nil
}

// List returns all secrets by name.
func (s *Store) List() ([]Entry, error) {
	c, err := s.read()
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(c.Secrets))
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		r := c.Secrets[name]
		list = append(list, Entry{name, r.Place, r.Changed})
	}
	return list, nil
}

// Set stores a value, in the keyring where there is one that takes it and
// inFile does not forbid it, and says where it is.
func (s *Store) Set(ctx context.Context, name, value string, inFile bool) (place Place, err error) {
	if err := errors.Join(CheckName(name), checkValue(value)); err != nil {
		return "", err
	}
	err = s.change(ctx, func(c *content) error {
		old, had := c.Secrets[name]
		if !had && len(c.Secrets) >= maxCount {
			return fmt.Errorf("there are %d secrets already", maxCount)
		}
		r := record{Place: InKeyring, Changed: time.Now().UTC()}
		if inFile || s.ring.set(name, value) != nil {
			r.Place, r.Value = InFile, value
			if had && old.Place == InKeyring {
				_ = s.ring.remove(name) // a keyring that cannot be used keeps it
			}
		}
		c.Secrets[name] = r
		place = r.Place
		return nil
	})
	return place, err
}

// Remove forgets a secret; removed is false where there was none.
func (s *Store) Remove(ctx context.Context, name string) (removed bool, err error) {
	err = s.change(ctx, func(c *content) error {
		r, ok := c.Secrets[name]
		if !ok {
			return errUnchanged
		}
		if r.Place == InKeyring {
			if err := s.ring.remove(name); err != nil && !errors.Is(err, ErrNotFound) {
				return fmt.Errorf("the secret %s is in the keyring, which cannot be used: %w", name, err)
			}
		}
		delete(c.Secrets, name)
		removed = true
		return nil
	})
	return removed && err == nil, err
}

// errUnchanged leaves the file as it is.
var errUnchanged = errors.New("nothing to be done")

// change reads, changes and writes the file; two changes at once wait for each
// other.
func (s *Store) change(ctx context.Context, f func(*content) error) error {
	return s.file().Change(ctx, func(text []byte) ([]byte, error) {
		c, err := s.decode(text)
		if err != nil {
			return nil, fmt.Errorf("nothing was changed: %w", err)
		}
		switch err := f(c); {
		case errors.Is(err, errUnchanged):
			return nil, nil
		case err != nil:
			return nil, err
		}
		next, err := json.MarshalIndent(c, "", "  ")
		return append(next, '\n'), err
	})
}

// read returns the file's content; a missing one is empty.
func (s *Store) read() (*content, error) {
	text, err := s.Read()
	if err != nil {
		return nil, err
	}
	return s.decode(text)
}

func (s *Store) file() *lockedfile.File {
	f := &lockedfile.File{
		What: "the secrets", Max: maxFile,
		Exposed: "whoever could has the secrets, so change them; then chmod 600 it",
	}
	if s.dir != "" {
		f.Path = s.Path()
	}
	return f
}

// decode understands what the file has; nil: there is none.
func (s *Store) decode(text []byte) (*content, error) {
	c := &content{Version: version, Secrets: map[string]record{}}
	if text == nil {
		return c, nil
	}
	// What is wrong with the JSON is not repeated: a value may be in it.
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if dec.Decode(c) != nil {
		return nil, s.damaged()
	}
	if c.Version != version {
		return nil, s.file().Bad(fmt.Sprintf("it is of version %d, and this metamcp knows %d", c.Version, version))
	}
	if c.Secrets == nil {
		c.Secrets = map[string]record{}
	}
	for name, r := range c.Secrets {
		if CheckName(name) != nil || r.Place != InFile && r.Place != InKeyring || r.Place == InFile && checkValue(r.Value) != nil {
			return nil, s.damaged()
		}
	}
	return c, nil
}

func (s *Store) damaged() error {
	return s.file().Bad("it is damaged; restore it, or move it away and store the secrets again")
}
