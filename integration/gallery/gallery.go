package gallery

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/integration/spelling"
)

// Kind says where a server's package comes from, and so what starts it.
type Kind string

// The kinds.
const (
	NPM  Kind = "npm"  // npx
	PyPI Kind = "pypi" // uvx
	OCI  Kind = "oci"  // docker
)

// Entry is one server. Whoever gets one must not change it.
type Entry struct {
	Name        string   `json:"name"` // short, and that of the server where nobody gives another
	Description string   `json:"description"`
	Kind        Kind     `json:"kind"`
	Package     string   `json:"package"`           // its name, or an image without tag
	Program     string   `json:"program,omitempty"` // of PyPI, where it has another name than the package
	Categories  []string `json:"categories"`
	Homepage    string   `json:"homepage"`
	// Official says that whoever makes what it connects to makes it too.
	Official bool       `json:"official,omitempty"`
	Args     []string   `json:"args,omitempty"`   // that it always gets
	Inputs   []Input    `json:"inputs,omitempty"` // arguments that somebody has to choose, behind Args
	Env      []Variable `json:"env,omitempty"`
	Note     string     `json:"note,omitempty"` // what has to be done before it works
}

// Input is an argument that depends on who uses the server.
type Input struct {
	Name        string `json:"name"` // for people, such as FOLDER
	Flag        string `json:"flag,omitempty"`
	Description string `json:"description"`
	Required    bool   `json:"required,omitempty"`
	Repeated    bool   `json:"repeated,omitempty"` // it may be given several times; the last input only
}

// Variable is one of the environment.
type Variable struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required,omitempty"`
	Secret      bool   `json:"secret,omitempty"`
	Default     string `json:"default,omitempty"` // what the server takes without it
	Value       string `json:"value,omitempty"`   // what it always has to be
}

//go:embed gallery.json
var data []byte

// all is the list by name; a test makes sure that it can be read.
var all = sync.OnceValue(func() []Entry {
	var list []Entry
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
})

// All returns every server, by name.
func All() []Entry { return slices.Clone(all()) }

// Find returns the server of that short name, or of that package; nil: none.
func Find(name string) *Entry {
	for _, same := range []func(*Entry) bool{
		func(e *Entry) bool { return e.Name == name },
		func(e *Entry) bool { return e.Package == name },
	} {
		for i := range all() {
			if e := &all()[i]; same(e) {
				return e
			}
		}
	}
	return nil
}

// Categories returns the categories that there are, by name.
func Categories() []string {
	var list []string
	for i := range all() {
		list = append(list, all()[i].Categories...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// In returns the servers of a category, by name.
func In(category string) []Entry {
	return slices.DeleteFunc(All(), func(e Entry) bool { return !slices.Contains(e.Categories, category) })
}

// Like returns the names of servers that a word could mean, three at most:
// those with it in their name first, then those with it in their description;
// where there are none, the one that is spelled most like it.
func Like(word string) []string {
	const most = 3
	word = strings.ToLower(strings.TrimSpace(word))
	if word == "" {
		return nil
	}
	var names, told []string
	for i := range all() {
		switch e := &all()[i]; {
		case strings.Contains(e.Name, word), strings.Contains(word, e.Name), strings.Contains(e.Package, word):
			names = append(names, e.Name)
		case strings.Contains(strings.ToLower(e.Description), word), slices.Contains(e.Categories, word):
			told = append(told, e.Name)
		}
	}
	names = append(names, told...)
	if len(names) > 0 {
		return names[:min(len(names), most)]
	}
	const longest = 40 // as names here are; it bounds the work
	best, distance := "", 1+len(word)/4
	for i := range all() {
		if name := all()[i].Name; len(word) <= longest {
			if d := spelling.Distance(word, name); d < distance {
				best, distance = name, d
			}
		}
	}
	if best == "" {
		return nil
	}
	return []string{best}
}

// Arguments returns the arguments behind those of the package manager: what the
// server always gets, and values for its inputs in their order. Values beyond
// them follow as they are. The error names a required input that has none.
func (e *Entry) Arguments(values []string) ([]string, error) {
	args := slices.Clone(e.Args)
	for _, in := range e.Inputs {
		if len(values) == 0 {
			if in.Required {
				return nil, fmt.Errorf("%s needs %s, %s: give it with --arg %s", e.Name, in.Name, in.Description, in.Name)
			}
			break
		}
		n := 1
		if in.Repeated {
			n = len(values)
		}
		for _, v := range values[:n] {
			if in.Flag != "" {
				args = append(args, in.Flag)
			}
			args = append(args, v)
		}
		values = values[n:]
	}
	return append(args, values...), nil
}

// Environment returns the variables of an entry: those that are given, those
// that the server always needs, and for required ones that are not given a
// reference to the variable of the same name of whoever starts metamcp.
func (e *Entry) Environment(given map[string]string) map[string]string {
	env := map[string]string{}
	for _, v := range e.Env {
		switch {
		case v.Value != "":
			env[v.Name] = v.Value
		case v.Required:
			env[v.Name] = "${" + v.Name + "}"
		}
	}
	for name, value := range given {
		env[name] = value
	}
	return env
}

// Start returns what starts the server. version is exact, or "" for the one that
// npx, uvx or docker takes by itself; args are those of [Entry.Arguments], and env the names of its
// variables, which an image gets one by one.
func (e *Entry) Start(version string, args, env []string) (command string, words []string) {
	switch e.Kind {
	case PyPI:
		pinned := e.Package
		if version != "" {
			pinned += "==" + version
		}
		program := e.Program
		if program == "" {
			program = e.Package
		}
		if program != pinned {
			words = []string{"--from", pinned}
		}
		return "uvx", append(append(words, program), args...)
	case OCI:
		words = []string{"run", "-i", "--rm"}
		for _, name := range env {
			words = append(words, "-e", name)
		}
		image := e.Package
		if version != "" {
			image += ":" + version
		}
		return "docker", append(append(words, image), args...)
	default:
		pinned := e.Package
		if version != "" {
			pinned += "@" + version
		}
		return "npx", append([]string{"-y", pinned}, args...)
	}
}
