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
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/regular"
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
	// NoProvision says that its clients must not have servers installed, nor store
	// secrets or log in for all.
	NoProvision bool `json:"noProvision,omitempty"`
}

// Expired says whether the token's time is over.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

type content struct {
	Version int     `json:"version"`
	Tokens  []Token `json:"tokens"`
}

// again is how long a file that could not be used is taken for that without
// another look, where nothing that can be seen of it has changed.
const again = time.Second

// Store is the tokens of one state folder. Its methods are safe for any
// goroutine, and for several processes at once.
type Store struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex  // guards what follows: the file as it was last read
	file   fs.FileInfo // nil: there was none
	known  []Token
	failed error
	looked time.Time // when it failed
}

// New returns the store of a state folder, which need not be there yet. log is
// told once that the file cannot be used, and once that it can again; nil: the
// default one.
func New(stateDir string, log *slog.Logger) *Store {
	if log == nil {
		log = slog.Default()
	}
	return &Store{dir: stateDir, log: log}
}

// unchanged says whether the file is as it was: what is in it, and who may read it.
func unchanged(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	of, known := regular.Owner(a)
	to, also := regular.Owner(b)
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode() &&
		of == to && known == also && os.SameFile(a, b)
}

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
// lifetime 0: it does not expire. A token of that name is an error that wraps
// [ErrTaken].
func (s *Store) Add(ctx context.Context, name string, lifetime time.Duration, noProvision bool) (token string, err error) {
	return s.put(ctx, name, lifetime, noProvision, false)
}

// Replace is [Store.Add] in the place of the token of that name, where there is one,
// which is good for nothing then.
func (s *Store) Replace(ctx context.Context, name string, lifetime time.Duration, noProvision bool) (token string, err error) {
	return s.put(ctx, name, lifetime, noProvision, true)
}

// ErrTaken says that there is a token of the name.
var ErrTaken = errors.New("there is a token of this name already")

func (s *Store) put(ctx context.Context, name string, lifetime time.Duration, noProvision, replace bool) (token string, err error) {
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
		same := func(o Token) bool { return o.Name == name }
		if replace {
			c.Tokens = slices.DeleteFunc(c.Tokens, same)
		}
		switch {
		case slices.ContainsFunc(c.Tokens, same):
			return fmt.Errorf("%w: %s", ErrTaken, name)
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
		return Token{}, fmt.Errorf("the token %s expired at %s; whoever runs this host makes a new one with metamcp token add %s --replace", known[found].Name, known[found].Expires.UTC().Format(time.RFC3339), known[found].Name)
	}
	return known[found], nil
}

// Holds says whether a token that was checked is still good. Where the file cannot be
// read nobody gets in, but nobody's rights are known to have ended: then it is.
func (s *Store) Holds(t Token) bool {
	known, err := s.current()
	return err != nil || !t.Expired(time.Now()) && slices.ContainsFunc(known, func(o Token) bool { return o.Hash == t.Hash })
}

// Any says whether there are tokens, expired ones included. The error says why
// that is not known.
func (s *Store) Any() (bool, error) {
	known, err := s.current()
	return len(known) > 0, err
}

// current returns the tokens as the file has them now.
func (s *Store) current() ([]Token, error) {
	info, err := os.Stat(s.Path())
	s.mu.Lock()
	defer s.mu.Unlock()
	link := false // to nothing, which is not as if there were no file
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info = nil
		_, linkErr := os.Lstat(s.Path())
		link = linkErr == nil
	case err != nil:
		s.learned(nil, nil, err)
		return nil, err
	}
	if !link && unchanged(s.file, info) && (s.known != nil || info == nil && s.failed == nil || s.failed != nil && time.Since(s.looked) < again) {
		return s.known, s.failed
	}
	c, err := s.read()
	if err != nil {
		s.learned(info, nil, err)
	} else {
		s.learned(info, c.Tokens, nil)
	}
	return s.known, s.failed
}

// learned keeps what was read, and tells where the tokens were lost or came back;
// s.mu is held.
func (s *Store) learned(info fs.FileInfo, known []Token, failed error) {
	switch {
	case failed != nil && (s.failed == nil || s.failed.Error() != failed.Error()):
		s.log.Error("nobody gets in over HTTP until the tokens can be read", "file", s.Path(), "error", failed)
	case failed == nil && s.failed != nil:
		s.log.Info("the tokens of clients over HTTP can be read again", "file", s.Path())
	}
	s.file, s.known, s.failed, s.looked = info, known, failed, time.Now()
}

// change reads, changes and writes the file; two changes at once wait for each
// other.
func (s *Store) change(ctx context.Context, f func(*content) error) error {
	return s.private().Change(ctx, func(text []byte) ([]byte, error) {
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
	text, err := s.private().Read()
	if err != nil {
		return nil, err
	}
	return s.decode(text)
}

func (s *Store) private() *lockedfile.File {
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
		return nil, s.private().Bad("it is damaged (" + err.Error() + "); move it away and make the tokens again")
	}
	if c.Version != version {
		return nil, s.private().Bad(fmt.Sprintf("it is of version %d, and this metamcp knows %d", c.Version, version))
	}
	for _, t := range c.Tokens {
		if sum, err := hex.DecodeString(t.Hash); CheckName(t.Name) != nil || err != nil || len(sum) != sha256.Size {
			return nil, s.private().Bad("it is damaged; move it away and make the tokens again")
		}
	}
	return c, nil
}
