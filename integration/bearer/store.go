package bearer

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/lockedfile"
)

// FileName is the name of the file in the state folder.
const FileName = "http-tokens.json"

const (
	// prefix lets scanners of leaked secrets, and people, know a token.
	prefix     = "mmt_"
	tokenBytes = 32
	maxName    = 64
	maxCount   = 1000
	maxFile    = 1 << 20
	version    = 1
)

// Token is one token without its value.
type Token struct {
	Name string `json:"name"`
	// Hash is the SHA-256 of the token, in hexadecimal.
	Hash    string    `json:"sha256"`
	Created time.Time `json:"created"`
	// Expires is when the token ends; zero: never.
	Expires time.Time `json:"expires,omitzero"`
	// NoProvision says that its clients must not have servers installed.
	NoProvision bool `json:"noProvision,omitempty"`
}

// Expired says whether the token's time is over.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

type content struct {
	Version int     `json:"version"`
	Tokens  []Token `json:"tokens"`
}

// Store is the tokens of one state folder. Its methods are safe for any
// goroutine, and for several processes at once.
type Store struct {
	dir string

	mu     sync.Mutex // guards what follows: the file as it was last read
	state  fileState
	known  []Token
	failed error
}

// fileState tells one state of the file from another.
type fileState struct {
	there bool
	size  int64
	time  time.Time
	file  fs.FileInfo
}

func (s fileState) same(o fileState) bool {
	return s.there == o.there && s.size == o.size && s.time.Equal(o.time) && (!s.there || os.SameFile(s.file, o.file))
}

// New returns the store of a state folder, which need not be there yet.
func New(stateDir string) *Store { return &Store{dir: stateDir} }

// Path is the file of the store.
func (s *Store) Path() string { return filepath.Join(s.dir, FileName) }

// CheckName says what is wrong with the name of a token, or nil.
func CheckName(name string) error {
	good := name != "" && len(name) <= maxName
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		good = good && (letter || i > 0 && strings.IndexByte("-_.@", c) >= 0)
	}
	if !good {
		return fmt.Errorf("a token's name has letters, digits, -, _, . and @, at most %d of them, and begins with a letter or digit", maxName)
	}
	return nil
}

// Add makes a token of 256 random bits and returns it; only its hash is kept.
// lifetime 0: it does not expire.
func (s *Store) Add(ctx context.Context, name string, lifetime time.Duration, noProvision bool) (token string, err error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // it never fails
	token = prefix + base64.RawURLEncoding.EncodeToString(raw)
	sum := sha256.Sum256([]byte(token))
	t := Token{Name: name, Hash: hex.EncodeToString(sum[:]), Created: time.Now().UTC().Truncate(time.Second), NoProvision: noProvision}
	if lifetime > 0 {
		t.Expires = time.Now().Add(lifetime).UTC().Truncate(time.Second)
	}
	err = s.change(ctx, func(c *content) error {
		switch {
		case slices.ContainsFunc(c.Tokens, func(o Token) bool { return o.Name == name }):
			return fmt.Errorf("there is a token %s already; remove it first, or take another name", name)
		case len(c.Tokens) >= maxCount:
			return fmt.Errorf("there are %d tokens already; remove some", maxCount)
		}
		c.Tokens = append(c.Tokens, t)
		return nil
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// List returns the tokens in the order in which they were made.
func (s *Store) List() ([]Token, error) {
	c, err := s.read()
	if err != nil {
		return nil, err
	}
	return c.Tokens, nil
}

// Remove forgets a token; removed is false where there was none.
func (s *Store) Remove(ctx context.Context, name string) (removed bool, err error) {
	err = s.change(ctx, func(c *content) error {
		before := len(c.Tokens)
		c.Tokens = slices.DeleteFunc(c.Tokens, func(t Token) bool { return t.Name == name })
		removed = len(c.Tokens) < before
		return nil
	})
	return removed && err == nil, err
}

// ErrUnknown says that a token is none of the store's.
var ErrUnknown = errors.New("this token is not known; it may have been removed (metamcp token list)")

// Check returns the entry of a token. It reads the file only where that has
// changed. The error is for the client.
func (s *Store) Check(token string) (Token, error) {
	known, err := s.current()
	if err != nil {
		return Token{}, errors.New("the tokens of this host cannot be read, so nobody gets in; its log says more")
	}
	sum := sha256.Sum256([]byte(token))
	given := []byte(hex.EncodeToString(sum[:]))
	found := -1
	for i := range known {
		if subtle.ConstantTimeCompare(given, []byte(known[i].Hash)) == 1 {
			found = i
		}
	}
	switch {
	case found < 0:
		return Token{}, ErrUnknown
	case known[found].Expired(time.Now()):
		return Token{}, fmt.Errorf("the token %s expired at %s; make a new one with metamcp token add", known[found].Name, known[found].Expires.Format(time.RFC3339))
	}
	return known[found], nil
}

// Any says whether there are tokens, expired ones included. The error says why
// that is not known.
func (s *Store) Any() (bool, error) {
	known, err := s.current()
	return len(known) > 0, err
}

// current returns the tokens as the file has them now.
func (s *Store) current() ([]Token, error) {
	var now fileState
	info, err := os.Stat(s.Path())
	if err == nil {
		now = fileState{true, info.Size(), info.ModTime(), info}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.same(now) && (s.known != nil || s.failed != nil || !now.there) {
		return s.known, s.failed
	}
	c, err := s.read()
	s.state, s.failed, s.known = now, err, nil
	if err == nil {
		s.known = c.Tokens
	}
	return s.known, s.failed
}

// change reads, changes and writes the file; two changes at once wait for each
// other.
func (s *Store) change(ctx context.Context, f func(*content) error) error {
	return s.file().Change(ctx, func(text []byte) ([]byte, error) {
		c, err := s.decode(text)
		if err != nil {
			return nil, fmt.Errorf("nothing was changed: %w", err)
		}
		if err := f(c); err != nil {
			return nil, err
		}
		next, err := json.MarshalIndent(c, "", "  ")
		return append(next, '\n'), err
	})
}

// read returns the file's content; a missing one is empty.
func (s *Store) read() (*content, error) {
	text, err := s.file().Read()
	if err != nil {
		return nil, err
	}
	return s.decode(text)
}

func (s *Store) file() *lockedfile.File {
	f := &lockedfile.File{
		What: "the tokens", Max: maxFile,
		Exposed: "it may have been changed by them; look at metamcp token list after chmod 600",
	}
	if s.dir != "" {
		f.Path = s.Path()
	}
	return f
}

// decode understands what the file has; nil: there is none.
func (s *Store) decode(text []byte) (*content, error) {
	c := &content{Version: version, Tokens: []Token{}}
	if text == nil {
		return c, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return nil, s.file().Bad("it is damaged (" + err.Error() + "); move it away and make the tokens again")
	}
	if c.Version != version {
		return nil, s.file().Bad(fmt.Sprintf("it is of version %d, and this metamcp knows %d", c.Version, version))
	}
	for _, t := range c.Tokens {
		if sum, err := hex.DecodeString(t.Hash); CheckName(t.Name) != nil || err != nil || len(sum) != sha256.Size {
			return nil, s.file().Bad("it is damaged; move it away and make the tokens again")
		}
	}
	return c, nil
}
