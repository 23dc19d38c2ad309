package provisioned

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/metamcp/metamcp/integration/safename"
)

// Bounds on the lock file.
const (
	maxFile    = 8 << 20 // bytes
	maxServers = 1000
	maxName    = 80 // bytes of a server's name, as of a file name
)

// version is that of the format.
const version = 1

// Entry is a server as .mcp.json has it. Its strings are those of a
// configuration file: ${NAME} stands for a variable, $${ for a plain ${. Secrets
// are never in it, only references to them.
type Entry struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Source says where a server is from.
type Source struct {
	// Server is its name in an MCP registry; "" where none told of it.
	Server string `json:"server,omitempty"`
	// Kind is npm, pypi, oci, mcpb or remote, Package its name there.
	Kind    string `json:"kind"`
	Package string `json:"package"`
	Version string `json:"version,omitempty"`
	// Integrity is what the package manager said that the package must be, like
	// sha512-…; "" where it says nothing.
	Integrity string `json:"integrity,omitempty"`
	// URL is where it was downloaded, for kinds that have none but that.
	URL string `json:"url,omitempty"`
}

// String is kind, name and version.
func (s *Source) String() string {
	text := s.Kind + ":" + s.Package
	if s.Version != "" {
		text += "@" + s.Version
	}
	return text
}

// Place says where a value that a server needs goes.
type Place string

// The places.
const (
	InEnvironment Place = "variable"
	InArguments   Place = "argument"
	InHeaders     Place = "header"
	InURL         Place = "url"
)

// Need is a value that a server wants from whoever uses it.
type Need struct {
	Name        string   `json:"name"`
	Place       Place    `json:"place"`
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Secret      bool     `json:"secret,omitempty"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	Format      string   `json:"format,omitempty"` // number, boolean, filepath; "": any text
	Placeholder string   `json:"placeholder,omitempty"`
}

// Locked is one server of the lock file. Whoever gets one must not change it.
type Locked struct {
	// Name is that of the server: lower-case letters, digits, '-', '_', '.'.
	Name        string `json:"-"`
	Description string `json:"description,omitempty"`
	Entry       Entry  `json:"entry"`
	Source      Source `json:"source"`
	// Folder is its folder below servers/, and Tree the hash of what is in it;
	// both are "" of a server that has no files here, such as an image.
	Folder string `json:"folder,omitempty"`
	Tree   string `json:"tree,omitempty"`
	// InstalledAt is the moment at which it was put into the file.
	InstalledAt time.Time `json:"installedAt"`
	// AllowedBy is the entry of the trust file that allowed it, or "a person";
	// Reason is why its gates were open.
	AllowedBy string `json:"allowedBy"`
	Reason    string `json:"reason,omitempty"`
	Needs     []Need `json:"needs,omitempty"`
}

// APerson is what AllowedBy says where no trust file decided.
const APerson = "a person"

// file is the lock file.
type file struct {
	Version int  `json:"version"`
	Servers list `json:"servers"`
}

// list is the object of servers, in its order.
type list []Locked

// MarshalJSON implements json.Marshaler.
func (l list) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(l[i].Name)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(&l[i])
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *list) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("servers is no object")
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return errors.New("servers has a name that is none")
		}
		if len(*l) == maxServers {
			return fmt.Errorf("it has more than %d servers", maxServers)
		}
		var s Locked
		if err := d.Decode(&s); err != nil {
			return fmt.Errorf("server %q: %w", name, err)
		}
		s.Name = name
		if err := s.check(); err != nil {
			return fmt.Errorf("server %q: %w", name, err)
		}
		if slices.ContainsFunc(*l, func(o Locked) bool { return o.Name == name }) {
			return fmt.Errorf("server %q is there twice", name)
		}
		*l = append(*l, s)
	}
	return nil
}

// Parse reads the text of a lock file. It knows all or nothing: what is not
// exactly as [Lock.Keep] writes it is an error, since it could be half of what
// it should say.
func Parse(text []byte) ([]Locked, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	if err := checkKeys(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var f file
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind its end")
	}
	if f.Version != version {
		return nil, fmt.Errorf("its version is %d, and this metamcp knows %d", f.Version, version)
	}
	return f.Servers, nil
}

// checkKeys refuses an object that has a key twice: readers differ in which of
// them counts.
func checkKeys(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	type object struct {
		keys  map[string]bool // nil: a list
		value bool            // a value comes next
	}
	var open []object
	for {
		t, err := d.Token()
		if err != nil {
			return nil //nolint:nilerr // what is no JSON is told by who reads it
		}
		top := len(open) - 1
		if key, ok := t.(string); ok && top >= 0 && open[top].keys != nil && !open[top].value {
			if open[top].keys[key] {
				return fmt.Errorf("%q is there twice", key)
			}
			open[top].keys[key], open[top].value = true, true
			continue
		}
		switch t {
		case json.Delim('{'):
			open = append(open, object{keys: map[string]bool{}})
			continue
		case json.Delim('['):
			open = append(open, object{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
		}
		if top = len(open) - 1; top >= 0 {
			open[top].value = false
		}
	}
}

// format is the reverse of Parse.
func format(servers []Locked) ([]byte, error) {
	compact, err := json.Marshal(file{Version: version, Servers: servers})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// CheckName says what is wrong with the name of a provisioned server.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || safename.SafeName(name) != name || strings.Contains(name, "@") {
		return errors.New("a name has 1 to 80 of: lower-case letters, digits, '-', '_' and inner dots")
	}
	return nil
}

// checkFolder lets no folder be anywhere but directly below servers/.
func checkFolder(folder string) error {
	if folder == "" || safename.SafeName(folder) != folder || !filepath.IsLocal(folder) {
		return errors.New("its folder is no name of a folder")
	}
	return nil
}

func (s *Locked) check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch {
	case (s.Entry.Command == "") == (s.Entry.URL == ""):
		return errors.New("its entry needs a command or a url")
	case s.Source.Kind == "" || s.Source.Package == "":
		return errors.New("its source says no kind or no package")
	case (s.Folder == "") != (s.Tree == ""):
		return errors.New("its folder and its tree belong together")
	case s.AllowedBy == "":
		return errors.New("it does not say who allowed it")
	}
	if s.Folder != "" {
		if err := checkFolder(s.Folder); err != nil {
			return err
		}
	}
	texts := slices.Concat([]string{s.Entry.Command, s.Entry.Cwd, s.Entry.URL}, s.Entry.Args,
		slices.Collect(maps.Keys(s.Entry.Env)), slices.Collect(maps.Values(s.Entry.Env)),
		slices.Collect(maps.Keys(s.Entry.Headers)), slices.Collect(maps.Values(s.Entry.Headers)))
	for _, text := range texts {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("its entry has control characters")
		}
	}
	return nil
}
