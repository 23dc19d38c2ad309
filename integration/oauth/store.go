package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/privatedir"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/messages"
)

const (
	folder        = "oauth"
	secretName    = "oauth"
	challengeFile = "challenge.json"
	lockFile      = "refresh.lock"

	version    = 1
	maxClients = 8
	// lockTime bounds the wait for another process that renews a token, which
	// takes no longer than its request.
	lockTime = 2 * requestTime
)

// saved is all that is kept for one server.
type saved struct {
	Version int `json:"version"`
	// URL is that of the server. A server of the same name and another address
	// is another one.
	URL string `json:"url"`
	// Clients are the registrations, by issuer.
	Clients map[string]identity `json:"clients,omitempty"`
	// Bound is, by the id of a client that the user configured, the issuer to which
	// it belongs: where it was used first, or was logged in as the user said.
	Bound map[string]string `json:"bound,omitempty"`
	Login *login            `json:"login,omitempty"`

	// foreign is a login that is stored in the place of Login and is none of the
	// server's entry: that names another authorization server or another client
	// now. It is kept, as the entry may change back, and is given back by a logout.
	foreign *login
}

// setAside makes the login foreign unless it is one of an entry. Any other one is not
// used, and is given nothing of the entry: no secret, no key and no id.
func (v *saved) setAside(o *messages.OAuth) {
	if v.Login != nil && o != nil && !v.loginOf(o) {
		v.foreign, v.Login = v.Login, nil
	}
}

// loginOf says whether the login is of the client that an entry has, as far as it has
// one, at the authorization server that it names, or else to which that client belongs.
func (v *saved) loginOf(o *messages.OAuth) bool {
	switch l := v.Login; {
	case o.Issuer != "" && l.Issuer != o.Issuer: // discover compares them so, too
		return false
	case o.ClientID == "":
		return true
	default:
		// The id alone does not tell: that of a client which registers itself is chosen
		// by the authorization server, and may be that of the user's client elsewhere.
		return l.Client.ID == o.ClientID && (o.Issuer != "" || v.Bound[o.ClientID] == l.Issuer)
	}
}

// bind makes a client that the user configured belong to an authorization server.
func (v *saved) bind(client, issuer string) {
	if v.Bound[client] == issuer {
		return
	}
	v.Bound = maps.Clone(v.Bound) // others read the map that it came from
	if v.Bound == nil {
		v.Bound = map[string]string{}
	}
	v.Bound[client] = issuer
}

// shelf is the place of one server's tokens: the keyring, or a file that nobody
// else may read.
type shelf struct {
	dir string // "": nothing can be kept
	url string
	box *secrets.Store
}

func newShelf(stateDir, server, url string) *shelf {
	s := &shelf{url: url}
	if stateDir != "" {
		s.dir = filepath.Join(stateDir, folder, safename.SafeName(server))
		s.box = secrets.New(s.dir)
	}
	return s
}

// stamp tells whether something was stored since; nil: nothing is.
func (s *shelf) stamp() fs.FileInfo {
	if s.dir == "" {
		return nil
	}
	info, err := os.Stat(s.box.Path())
	if err != nil {
		return nil
	}
	return info
}

// unchanged says whether two stamps are of the same content.
func unchanged(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// read returns what is stored; nothing of it is nil where there is nothing.
func (s *shelf) read() (*saved, error) {
	empty := &saved{Version: version, URL: s.url}
	if s.dir == "" || s.stamp() == nil {
		return empty, nil
	}
	text, err := s.box.Get(secretName)
	if errors.Is(err, secrets.ErrNotFound) {
		return empty, nil
	}
	if err != nil {
		return nil, &Error{Message: "the tokens of the server cannot be read: " + err.Error(), Advice: "metamcp doctor says more."}
	}
	var v saved
	if json.Unmarshal([]byte(text), &v) != nil || v.Version > version {
		return nil, &Error{Message: "what is stored of the server's login is damaged, or of a newer version", Advice: "Forget it with metamcp auth logout, and log in again."}
	}
	if v.URL != s.url {
		return empty, nil
	}
	return &v, nil
}

// write replaces what is stored. A foreign login stays until there is another one.
func (s *shelf) write(ctx context.Context, v *saved) error {
	if s.dir == "" {
		return nil
	}
	if v.Login == nil && v.foreign != nil {
		whole := *v
		whole.Login = v.foreign
		v = &whole
	}
	if len(v.Clients) > maxClients {
		v.Clients = maps.Clone(v.Clients) // others read the map that it came from
	}
	for name := range v.Clients {
		if len(v.Clients) <= maxClients {
			break
		}
		if v.Login == nil || v.Login.Issuer != name {
			delete(v.Clients, name)
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := s.box.Set(ctx, secretName, string(text), false); err != nil {
		return fail("the tokens cannot be stored in %s: %v", s.dir, err)
	}
	return nil
}

// forget removes all.
func (s *shelf) forget(ctx context.Context) error {
	if s.dir == "" || s.stamp() == nil {
		return nil
	}
	_, err := s.box.Remove(ctx, secretName)
	if err != nil {
		// What cannot be read is forgotten by removing its file.
		err = os.Remove(s.box.Path())
	}
	s.dropChallenge()
	return err
}

// lock keeps other processes from renewing the same token meanwhile.
func (s *shelf) lock(ctx context.Context) (unlock func(), err error) {
	if s.dir == "" {
		return func() {}, nil
	}
	if err := privatedir.Make(s.dir); err != nil {
		return nil, fail("the tokens cannot be stored: %v", err)
	}
	release, err := lockedfile.Lock(ctx, filepath.Join(s.dir, lockFile), lockTime)
	if err != nil {
		return nil, &Error{Message: "another process is renewing the token and does not end", Cause: err}
	}
	return func() { _ = release() }, nil
}

// note keeps what a refusal asked for, so that a login knows it. It is no
// secret.
type note struct {
	URL string `json:"url"`
	challenge
}

func (s *shelf) writeChallenge(c challenge) error {
	if s.dir == "" {
		return nil
	}
	if err := privatedir.Make(s.dir); err != nil {
		return err
	}
	text, err := json.Marshal(note{s.url, c})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.dir, challengeFile), text, 0o600)
}

// readChallenge returns what was kept; false: nothing.
func (s *shelf) readChallenge() (challenge, bool) {
	if s.dir == "" {
		return challenge{}, false
	}
	const most = 2 * (maxScope + maxURL) * 3
	text, _, err := regular.Read(filepath.Join(s.dir, challengeFile), most)
	if err != nil {
		return challenge{}, false
	}
	var n note
	if json.Unmarshal(text, &n) != nil || n.URL != s.url {
		return challenge{}, false
	}
	n.Scopes = cleanScopes(n.Scopes)
	return n.challenge, true
}

func (s *shelf) dropChallenge() {
	if s.dir != "" {
		_ = os.Remove(filepath.Join(s.dir, challengeFile)) // one that is left asks for too much at the next login
	}
}
