// Package lineage says through which entries of configurations a process was started. A
// metamcp that an entry starts, whatever stands between (a script, npx, another gateway),
// knows by that which entries it must not start again.
package lineage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Var is the environment variable in which every process of a server has its chain.
const Var = "METAMCP_CHAIN"

// MaxDepth is how many metamcps may stand one behind the other. It ends what no file
// tells, such as a script that writes a new configuration for each start.
const MaxDepth = 16

// maxEntries bounds what a chain holds; more than MaxDepth come together where clients of
// a shared host are metamcps too.
const maxEntries = 64

// Entry is an entry of a configuration.
type Entry struct {
	// File is the absolute path without links of the file in which it stands, or what
	// was given as one; "" where it can be read only once, as a pipe, and so tells nothing.
	File   string `json:"file"`
	Server string `json:"server"`
}

// String names the entry, for people.
func (e Entry) String() string {
	file := e.File
	if file == "" {
		file = "a configuration that was read from a pipe"
	}
	return strconv.Quote(e.Server) + " of " + file
}

// Chain is through which entries a process was started. The zero value is that of a
// process which no metamcp started. It is never changed.
type Chain struct {
	// Depth is how many entries stand one behind the other.
	Depth int `json:"depth"`
	// Entries are those, the outermost first; see [Chain.With].
	Entries []Entry `json:"entries"`
}

// Parse reads the value of [Var]. What is no chain is the zero value.
func Parse(value string) Chain {
	var c Chain
	if json.Unmarshal([]byte(value), &c) != nil {
		return Chain{}
	}
	c.Depth = max(c.Depth, 0)
	c.Entries = c.Entries[:min(len(c.Entries), maxEntries)]
	return c
}

// Behind is the chain of what the entry of that name starts, which stands in file.
func (c Chain) Behind(file, server string) Chain {
	own := Entry{File: resolved(file), Server: server}
	return Chain{Depth: c.Depth + 1, Entries: append(slices.Clone(c.Entries[:min(len(c.Entries), maxEntries-1)]), own)}
}

// With is the chain of a process that both lead to.
func (c Chain) With(other Chain) Chain {
	both := Chain{Depth: max(c.Depth, other.Depth), Entries: slices.Clone(c.Entries)}
	for _, e := range other.Entries {
		if len(both.Entries) < maxEntries && !slices.Contains(both.Entries, e) {
			both.Entries = append(both.Entries, e)
		}
	}
	return both
}

// Has tells whether the entry of that name, in that file, is in the chain, whichever way
// leads to the file.
func (c Chain) Has(file, server string) bool {
	asked, read := "", false
	return slices.ContainsFunc(c.Entries, func(e Entry) bool {
		if e.Server != server || e.File == "" {
			return false
		}
		if !read {
			asked, read = resolved(file), true
		}
		return e.File == asked || asked != "" && same(e.File, asked)
	})
}

// Way names the entries in their order, for people.
func (c Chain) Way() string {
	names := make([]string, len(c.Entries))
	for i, e := range c.Entries {
		names[i] = e.String()
	}
	return strings.Join(names, ", then ")
}

// Into returns an environment, as KEY=value, with the chain in the place of any other.
func (c Chain) Into(environ []string) []string {
	text, err := json.Marshal(c)
	if err != nil {
		return environ // strings and a number always have a text
	}
	return append(Without(environ), Var+"="+string(text))
}

// Without returns a copy of an environment without a chain, for a process whose life is
// not that of who starts it.
func Without(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return key == Var || runtime.GOOS == "windows" && strings.EqualFold(key, Var)
	})
}

// resolved is a file as an [Entry] has it.
func resolved(file string) string {
	if !filepath.IsAbs(file) {
		return file // where a server is from that stands in no file of ours
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return ""
	}
	if linkless, err := filepath.EvalSymlinks(file); err == nil {
		return linkless
	}
	return filepath.Clean(file) // it is being replaced
}

func same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}
