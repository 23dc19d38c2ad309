package clients

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
)

// filler turns a client's variables into metamcp's: ${NAME}, and $${ for a
// plain ${. It collects what a person has to know or to do.
type filler struct {
	refs    references
	sys     *System
	project string            // folder that the file belongs to; "": none
	inputs  map[string]string // VS Code's questions: id → description
	notes   []string
}

var (
	braced    = lazyregexp.New(`\$\{([^}]*)\}`)
	gemini    = lazyregexp.New(`\$(\w+)|\$\{([^}]+)\}`)
	openCode  = lazyregexp.New(`\{(env|file):([^}]+)\}`)
	shouted   = lazyregexp.New(`^[A-Z_][A-Z0-9_]*$`)
	plainName = lazyregexp.New(`[^A-Za-z0-9_]+`)
)

// escape is a text in which nothing is filled in.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

func (f *filler) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, n := range f.notes {
		if n == text {
			return
		}
	}
	f.notes = append(f.notes, text)
}

// text translates one string.
func (f *filler) text(s string) string {
	switch f.refs {
	case refShell:
		if strings.Contains(s, "$${") {
			f.note("a value holds $${, which metamcp takes for a plain ${")
		}
		return s
	case refEditor:
		return replace(braced(), s, escape, func(m []string) string { return f.editor(m[0], m[1]) })
	case refGemini:
		return replace(gemini(), s, escape, func(m []string) string {
			switch {
			case m[2] != "":
				return m[0]
			case shouted().MatchString(m[1]) || f.sys.Getenv(m[1]) != "":
				return "${" + m[1] + "}"
			}
			return m[0]
		})
	case refOpenCode:
		return replace(openCode(), s, escape, func(m []string) string {
			if m[1] == "env" {
				return "${" + strings.TrimSpace(m[2]) + "}"
			}
			f.note("{file:%s} is filled in by OpenCode only: put the value into a variable and write ${NAME}", m[2])
			return m[0]
		})
	default:
		return escape(s)
	}
}

// replace translates what an expression finds by one function and what stands
// between by another.
func replace(find *regexp.Regexp, s string, between func(string) string, found func(groups []string) string) string {
	var b strings.Builder
	at := 0
	for _, m := range find.FindAllStringSubmatchIndex(s, -1) {
		groups := make([]string, len(m)/2)
		for i := range groups {
			if m[2*i] >= 0 {
				groups[i] = s[m[2*i]:m[2*i+1]]
			}
		}
		b.WriteString(between(s[at:m[0]]))
		b.WriteString(found(groups))
		at = m[1]
	}
	b.WriteString(between(s[at:]))
	return b.String()
}

// editor translates what VS Code, Cursor and Windsurf fill in.
func (f *filler) editor(all, inner string) string {
	name, rest, scoped := strings.Cut(inner, ":")
	switch {
	case name == "env" && scoped:
		return "${" + rest + "}"
	case name == "input" && scoped:
		variable := strings.ToUpper(strings.Trim(plainName().ReplaceAllString(rest, "_"), "_"))
		what := ""
		if d := f.inputs[rest]; d != "" {
			what = " (" + d + ")"
		}
		f.note("set the variable %s where metamcp is started: the editor asks for %q%s", variable, rest, what)
		return "${" + variable + "}"
	case name == "userHome":
		if f.sys.GOOS == "windows" {
			return "${USERPROFILE}"
		}
		return "${HOME}"
	case name == "pathSeparator" || name == "/":
		if f.sys.GOOS == "windows" {
			return `\`
		}
		return "/"
	case (name == "workspaceFolder" || name == "workspaceRoot") && f.project != "":
		return escape(f.project)
	case name == "workspaceFolderBasename" && f.project != "":
		return escape(filepath.Base(f.project))
	case scoped, strings.HasPrefix(name, "workspace"), name == "file", name == "cwd":
		f.note("%s is filled in by the editor only: write the value itself", all)
		return all
	}
	return escape(all) // no variable of the editor, so it stood for itself
}
