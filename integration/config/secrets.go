package config

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/integration/secrets"
)

// secretPrefix is how a variable names a secret of the store.
const secretPrefix = "secret:"

// secretSource resolves ${secret:NAME} for one load. The store is looked for
// when the first one comes, and its file read once.
type secretSource struct {
	stateDir func() string
	path     string            // the store's file; "": no secret was asked for, or there is no state folder
	before   []content         // what was read of it
	stored   *secrets.Snapshot // nil: it was not read yet, or unusable says why it cannot be
	unusable error
	known    known

	ringFailed bool      // a secret is in the keyring, which cannot be used
	warnings   []Problem // of what stays in force without having been read

	found  map[string]string // values by name
	absent map[string]bool   // names that are not in the store
	// missing are the secrets that an entry needs and that are not stored.
	missing map[string][]string
	users   map[string][]string
	user    string // the entry that is being read; "": a setting
}

func (s *secretSource) resolve(name string) (value string, ok bool, err error) {
	if err := secrets.CheckName(name); err != nil {
		return "", false, &variableError{fmt.Sprintf("${%s%s} does not name a secret", secretPrefix, shorten(name)), err.Error()}
	}
	if s.users == nil {
		s.users = map[string][]string{}
	}
	if list := s.users[name]; !slices.Contains(list, s.user) {
		s.users[name] = append(list, s.user)
	}
	if value, ok := s.found[name]; ok {
		return value, true, nil
	}
	if s.stored == nil && s.unusable == nil {
		s.read()
	}
	if err = s.unusable; err == nil {
		value, err = s.stored.Get(name)
	}
	ok = err == nil
	if err != nil && !errors.Is(err, secrets.ErrNotFound) {
		var stays bool
		if value, ok, stays = s.inForce(name, err); !stays {
			return "", false, &variableError{err.Error(), storeHint}
		}
	}
	if s.found == nil {
		s.found, s.absent = map[string]string{}, map[string]bool{}
	}
	if ok {
		s.found[name] = value
	} else {
		s.absent[name] = true
	}
	return value, ok, nil
}

const storeHint = "metamcp doctor says more"

// inForce returns what is in force of a secret that could not be read: its value, or
// that there is none. What ends a server is that its secret is another one or gone,
// and not that nobody can tell.
func (s *secretSource) inForce(name string, err error) (value string, ok, known bool) {
	if errors.Is(err, secrets.ErrLost) {
		return "", false, false
	}
	if s.unusable == nil {
		s.ringFailed = true
	}
	value, ok = s.known.secrets[name]
	known = ok || s.known.absent[name]
	if known && (s.unusable == nil || len(s.warnings) == 0) {
		s.warnings = append(s.warnings, Problem{File: s.path, Message: err.Error() + "; what was read of it before stays in force", Hint: storeHint})
	}
	return value, ok, known
}

// read reads the store.
func (s *secretSource) read() {
	dir := s.stateDir()
	store, text := secrets.New(dir), []byte(nil)
	if dir != "" {
		s.path = store.Path()
		s.before = s.known.read(s.path, readSecrets)
		text, s.unusable = s.before[0].data, s.before[0].err
	}
	if s.unusable == nil {
		s.stored, s.unusable = store.Parse(text)
	}
}

// readSecrets reads the file of the store as files are read for their hash;
// nothing for "".
func readSecrets(path string) []content {
	if path == "" {
		return nil
	}
	c := content{path: path}
	c.data, c.err = secrets.New(filepath.Dir(path)).Read()
	return []content{c}
}

// stateDir finds out where the state folder will be: a secret may be asked for
// before that is read. What is wrong with the settings is said later.
func (r *resolvedSources) stateDir(contents []content) string {
	s := DefaultSettings()
	for _, c := range contents {
		if !bytes.Contains(c.data, []byte("stateDir")) {
			continue
		}
		doc, err := parseDocument(c.path, c.data)
		if err != nil {
			continue
		}
		root, ok := doc.root.Value.(*hujson.Object)
		if !ok {
			continue
		}
		for i := range root.Members {
			if m := &root.Members[i]; memberName(m) == "metamcp" {
				reader := settingsReader{doc: doc, ex: &expander{lookup: r.env.lookup}, s: &s, places: map[string]Problem{}}
				reader.read(&m.Value)
			}
		}
	}
	_, _ = applyVariables(&s, r.env)
	_ = r.overlay.apply(&s)
	s.resolve(r.home, r.cwd)
	return s.StateDir
}

// Secrets are the secrets of the store that the configuration asks for, with
// their values. They are shared and read-only.
func (c *Config) Secrets() map[string]string { return c.secrets }

// SecretUsers returns who asks for which secret of the store, whether it is
// there or not: names of servers, "" for a setting.
func (c *Config) SecretUsers() map[string][]string { return c.secretUsers }

// lacks notes that the entry that is being read needs a secret that is not stored.
func (s *secretSource) lacks(name string) {
	if s.missing == nil {
		s.missing = map[string][]string{}
	}
	if list := s.missing[s.user]; !slices.Contains(list, name) {
		s.missing[s.user] = append(list, name)
	}
}

// MissingSecrets returns the secrets of the store that the entry of a server needs
// and that are not there, in the order in which it names them.
func (c *Config) MissingSecrets(server string) []string { return c.missingSecrets[server] }
