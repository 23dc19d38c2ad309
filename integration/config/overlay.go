package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/integration/spelling"
)

// Overlay holds the settings that flags, or a program that embeds the host,
// put over variables and files. Its methods may be called from any goroutine.
type Overlay struct {
	mu   sync.Mutex
	sets map[string]overlayValue // by key path
}

type overlayValue struct{ text, origin string }

// NewOverlay returns an empty overlay.
func NewOverlay() *Overlay { return &Overlay{sets: map[string]overlayValue{}} }

// Set puts text over the key of that path, as its flag would. The error says
// that there is no such key, or what it takes.
func (o *Overlay) Set(path, text string) error { return o.set(path, text, path) }

func (o *Overlay) set(path, text, origin string) error {
	k := keyIndex[path]
	if k == nil {
		err := fmt.Errorf("there is no setting %s", shorten(path))
		paths := make([]string, len(keyTable))
		for i := range keyTable {
			paths[i] = keyTable[i].Path
		}
		if hint := suggestion(path, paths); hint != "" {
			err = fmt.Errorf("%w; %s", err, hint)
		}
		return err
	}
	var scratch Settings
	if err := k.Set(&scratch, text); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sets[path] = overlayValue{text, origin}
	return nil
}

// apply writes what was set into s.
func (o *Overlay) apply(s *Settings) error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for path, v := range o.sets {
		if err := keyIndex[path].Set(s, v.text); err != nil {
			return fmt.Errorf("%s: %w", v.origin, err)
		}
	}
	return nil
}

// origin names what put something over a key; "": nothing did.
func (o *Overlay) origin(path string) string {
	if o == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sets[path].origin
}

// given returns the flag or variable that set one of the keys; "": none did.
func (r *resolvedSources) given(keys []string) string {
	for _, path := range keys {
		if origin := r.overlay.origin(path); origin != "" {
			return origin
		}
	}
	for _, path := range keys {
		if text, _ := r.env.lookup(keyIndex[path].Env); text != "" {
			return keyIndex[path].Env
		}
	}
	return ""
}

// Given returns the settings that flags and variables set, as text by path,
// booleans as true or false however they were spelled; what the file says is not
// among them.
func Given(sources Sources) map[string]string {
	src := sources.resolved()
	given := map[string]string{}
	for i := range keyTable {
		if text, _ := src.env.lookup(keyTable[i].Env); text != "" {
			given[keyTable[i].Path] = text
		}
	}
	if src.overlay != nil {
		src.overlay.mu.Lock()
		defer src.overlay.mu.Unlock()
		for path, v := range src.overlay.sets {
			given[path] = v.text
		}
	}
	for path, text := range given {
		if on, ok := ParseBool(text); ok && keyIndex[path].Type == TypeBool {
			given[path] = strconv.FormatBool(on)
		}
	}
	return given
}

// RegisterFlags gives fs a flag for every key, aliases included, and returns
// the overlay that the parsed flags end up in. A bad value fails the parsing
// with an error that names the flag and what it takes. It panics where fs has
// a flag of one of the names already, as pflag does.
func RegisterFlags(fs *pflag.FlagSet) *Overlay {
	o := NewOverlay()
	for i := range keyTable {
		k := &keyTable[i]
		for j, name := range append([]string{k.Flag}, k.Aliases...) {
			usage := k.usage()
			if j > 0 {
				usage = "Same as --" + k.Flag + "."
			}
			f := fs.VarPF(&flagValue{overlay: o, key: k, name: name, text: k.Default}, name, "", usage)
			switch k.Type {
			case TypeBool:
				f.NoOptDefVal = "true"
			case TypeTrace:
				f.NoOptDefVal = "stderr"
			default: // needs a value
			}
		}
	}
	return o
}

// usage is the help text of the key's flag.
func (k *Key) usage() string {
	text := strings.TrimSuffix(k.Doc, ".")
	switch k.Type {
	case TypeInt:
		text += fmt.Sprintf(" (%d to %d)", k.Min, k.Max)
	case TypeMillis:
		text += ", as milliseconds or like 5m or 30s"
	case TypeEnum:
		text += " (" + strings.Join(k.Enum, ", ") + ")"
	default: // the text says it all
	}
	return text + " [$" + k.Env + "]"
}

// flagValue is one flag; it implements pflag.Value.
type flagValue struct {
	overlay *Overlay
	key     *Key
	name    string
	text    string
}

// String returns the text that was set last, or the default.
func (v *flagValue) String() string { return v.text }

// Set takes the text of the flag.
func (v *flagValue) Set(text string) error {
	if err := v.overlay.set(v.key.Path, text, "--"+v.name); err != nil {
		return err
	}
	v.text = text
	return nil
}

// Type is the placeholder in help texts.
func (v *flagValue) Type() string {
	switch v.key.Type {
	case TypeInt:
		return "int"
	case TypeMillis:
		return "duration"
	case TypeBool:
		return "bool"
	case TypeList:
		return "list"
	case TypeRules:
		return "json"
	case TypePath, TypeTrace:
		return "path"
	default:
		return "string"
	}
}

// ownVariables are no settings: the program says with them to processes that it starts
// which those are, and they are inherited. A metamcp that runs inside a server has them.
var ownVariables = []string{"METAMCP_TREE", lineage.Var, "METAMCP_WATCHDOG", "METAMCP_DELEGATED"}

// applyVariables writes the METAMCP_… variables into s; an empty one counts as
// not set. It returns warnings for names that mean one of ours.
func applyVariables(s *Settings, env *environment) ([]Problem, error) {
	for i := range keyTable {
		k := &keyTable[i]
		if text, _ := env.lookup(k.Env); text != "" {
			if err := k.Set(s, text); err != nil {
				return nil, fmt.Errorf("the environment variable %s: %w", k.Env, err)
			}
		}
	}
	var warnings []Problem
	names := make([]string, 0, len(keyTable)+1)
	for i := range keyTable {
		names = append(names, keyTable[i].Env)
	}
	names = append(names, FilesVariable)
	for _, p := range env.host {
		// Of others with that prefix only what must mean one of ours is worth a word.
		if strings.HasPrefix(p.key, "METAMCP_") && !slices.Contains(names, p.key) && !slices.Contains(ownVariables, p.key) && len(p.key) <= 64 {
			if c := meantVariable(p.key, names); c != "" {
				warnings = appendBounded(warnings, Problem{
					Message: fmt.Sprintf("the environment variable %s is not known and ignored", p.key),
					Hint:    "did you mean " + c + "?",
				})
			}
		}
	}
	return warnings, nil
}

// meantVariable is the variable of a setting that a name means, by a slip of the finger or as
// its flag is called or without its unit; "": none of the known.
func meantVariable(name string, known []string) string {
	for i := range keyTable {
		for _, flag := range append([]string{keyTable[i].Flag}, keyTable[i].Aliases...) {
			if name == "METAMCP_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) {
				return keyTable[i].Env
			}
		}
	}
	if slices.Contains(known, name+"_MS") {
		return name + "_MS"
	}
	if c := nearest(name, known); c != "" && spelling.Distance(name, c) <= 2 {
		return c
	}
	return ""
}
