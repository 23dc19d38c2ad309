// Package models keeps the model files of the local embedder: it installs them
// from the web, lists and removes them. They are in one folder, each with the
// name of its model, and a manifest says where they came from. Several
// processes may use the folder at once.
package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/regular"
)

// An Error says why something could not be done, and what to do next.
type Error struct {
	Message, Hint string
	Cause         error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ". " + e.Hint
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// The causes of errors that callers may tell apart.
var (
	ErrUnknown   = errors.New("no such model")
	ErrChecksum  = errors.New("the checksum differs")
	ErrUntrusted = errors.New("the checksum is not known")
	ErrBusy      = errors.New("the model is in use")
)

// Trust says why the content of a model file is believed to be right.
type Trust string

// The kinds of trust.
const (
	TrustCatalogue Trust = "catalogue" // the checksum stands in metamcp
	TrustGiven     Trust = "given"     // the user gave the checksum
	TrustFirstUse  Trust = "first-use" // the first download was believed, and later ones must be the same
)

// Installed is a model in the folder.
type Installed struct {
	Name string `json:"name"`
	// URL is where it came from, without a query.
	URL            string    `json:"url"`
	SHA256         string    `json:"sha256"`
	Size           int64     `json:"size"` // bytes
	Trust          Trust     `json:"trust"`
	InstalledAt    time.Time `json:"installedAt"`
	Architecture   string    `json:"architecture"`
	Dimension      int       `json:"dimension,omitempty"`
	QueryPrefix    string    `json:"queryPrefix,omitempty"`
	DocumentPrefix string    `json:"documentPrefix,omitempty"`
	// Missing says that the file is gone. It is not kept.
	Missing bool `json:"missing,omitempty"`
}

// ID names the content of the model, for the embedder: it changes when the
// vectors would.
func (m *Installed) ID() string {
	const enough = 12
	return m.Name + "@" + m.SHA256[:min(enough, len(m.SHA256))]
}

// Folder holds models. Its methods may be called by several goroutines at once.
type Folder struct {
	dir string
	// Times of a download, for tests.
	stall, backoff time.Duration
}

// In returns the folder at dir, which need not exist yet: <stateDir>/models.
func In(dir string) *Folder {
	return &Folder{dir: dir, stall: 30 * time.Second, backoff: time.Second}
}

// Path returns where the file of a model is, or would be.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, name+".gguf") }

// manifest is the file models.json.
type manifest struct {
	Version int                  `json:"version"`
	Models  map[string]Installed `json:"models"`
	// Pins are the checksums of URLs that were believed once. They outlive
	// the models.
	Pins map[string]string `json:"pins,omitempty"`
}

const manifestVersion = 1

// maxManifest is the most that is read of a manifest, in bytes.
const maxManifest = 16 << 20

func (f *Folder) manifestPath() string { return filepath.Join(f.dir, "models.json") }

func (f *Folder) read() (*manifest, error) {
	m := &manifest{Version: manifestVersion, Models: map[string]Installed{}, Pins: map[string]string{}}
	text, _, err := regular.Read(f.manifestPath(), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, m); err != nil || m.Models == nil {
		return nil, &Error{
			Message: fmt.Sprintf("%s cannot be read: %v", f.manifestPath(), err), Cause: err,
			Hint: "Remove the file and install the models again; those that are there already are not downloaded twice.",
		}
	}
	if m.Version != manifestVersion {
		return nil, &Error{Message: fmt.Sprintf("%s was written by another version of metamcp", f.manifestPath()), Hint: "Use that version, or remove the file."}
	}
	if m.Pins == nil {
		m.Pins = map[string]string{}
	}
	for name, model := range m.Models {
		// The name becomes part of a path, so it must not come from the file unseen.
		if !validName(name) || name != model.Name {
			delete(m.Models, name)
		}
	}
	return m, nil
}

// update changes the manifest; others wait meanwhile.
func (f *Folder) update(ctx context.Context, change func(*manifest)) error {
	unlock, err := f.lock(ctx, "=manifest", nil) // which no model is called
	if err != nil {
		return err
	}
	defer unlock()
	m, err := f.read()
	if err != nil {
		return err
	}
	change(m)
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(f.manifestPath(), append(text, '\n'), 0o600)
}

// List returns the installed models by name.
func (f *Folder) List() ([]Installed, error) {
	m, err := f.read()
	if err != nil {
		return nil, err
	}
	list := make([]Installed, 0, len(m.Models))
	for _, name := range slices.Sorted(maps.Keys(m.Models)) {
		model := m.Models[name]
		info, err := os.Stat(f.Path(name))
		model.Missing = err != nil || info.Size() != model.Size
		list = append(list, model)
	}
	return list, nil
}

// Find returns an installed model whose file is there. An empty name finds the
// only one, or, of several, the one that was installed last. The error wraps
// [ErrUnknown] where there is none.
func (f *Folder) Find(name string) (Installed, error) {
	list, err := f.List()
	if err != nil {
		return Installed{}, err
	}
	var found *Installed
	for i, m := range list {
		if m.Missing || name != "" && !strings.EqualFold(m.Name, name) {
			continue
		}
		if found == nil || m.InstalledAt.After(found.InstalledAt) {
			found = &list[i]
		}
	}
	if found != nil {
		return *found, nil
	}
	if name == "" {
		return Installed{}, &Error{Message: "no model is installed", Hint: "Install one with `metamcp model install " + known[0].Name + "`.", Cause: ErrUnknown}
	}
	return Installed{}, unknown(name, list)
}

func unknown(name string, list []Installed) error {
	e := &Error{Message: fmt.Sprintf("no model %q is installed", name), Cause: ErrUnknown, Hint: "`metamcp model list` shows those that are."}
	names := func(yield func(string) bool) {
		for _, m := range list {
			if !yield(m.Name) {
				return
			}
		}
	}
	if near := index.Nearest(name, names, 1); len(near) > 0 {
		e.Hint = "Did you mean " + near[0] + "?"
	}
	return e
}

// Remove deletes a model, and what is left of an interrupted download of it.
// The error wraps [ErrUnknown] where there is none, [ErrBusy] where it is being
// installed just now.
func (f *Folder) Remove(ctx context.Context, name string) (Installed, error) {
	m, err := f.read()
	if err != nil {
		return Installed{}, err
	}
	name = strings.ToLower(name)
	model, found := m.Models[name]
	if _, err := os.Stat(f.part(name)); !found && (!validName(name) || err != nil) {
		list, err := f.List()
		if err != nil {
			return Installed{}, err
		}
		return Installed{}, unknown(name, list)
	}
	unlock, err := f.tryLock(name)
	if err != nil {
		return Installed{}, err
	}
	defer unlock()
	// The file goes first: an entry without a file is seen as missing, a file
	// without an entry would stay for ever.
	for _, path := range []string{f.Path(name), f.part(name), f.part(name) + ".json"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Installed{}, &Error{Message: fmt.Sprintf("the model %s cannot be removed: %v", name, err), Hint: "Is metamcp using it? Stop it and try again.", Cause: err}
		}
	}
	if model.Name == "" {
		model.Name = name
	}
	return model, f.update(ctx, func(m *manifest) { delete(m.Models, name) })
}

// validName keeps names harmless as parts of paths.
func validName(name string) bool {
	const longest = 100
	if name == "" || len(name) > longest || strings.Trim(name[:1], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}
