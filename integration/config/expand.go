package config

import (
	"fmt"
	"strings"
)

// expander resolves variables from one environment. A nil one leaves every
// string as it is.
type expander struct {
	lookup func(name string) (string, bool)
	filled int // bytes of all values so far
	// used are the variables that were resolved since somebody set it to nil.
	used map[string]string
	// secrets resolves ${secret:NAME}; nil: nothing can.
	secrets *secretSource
}

const (
	// maxExpanded bounds one string, far above what a system passes to a
	// process; maxFilled bounds what the variables of a whole configuration
	// bring, since a short text can name a long one very often.
	maxExpanded = 1 << 20
	maxFilled   = 64 << 20
)

// variableError is a variable that could not be resolved.
type variableError struct{ message, hint string }

func (e *variableError) Error() string { return e.message }

// editorVariables are VS Code's, which only the editor can fill.
var editorVariables = []string{
	"workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "userHome", "pathSeparator", "cwd", "execPath", "file",
	"fileBasename", "fileDirname", "relativeFile", "lineNumber", "selectedText", "defaultBuildTask",
}

// expand replaces ${VAR}, ${VAR:-default}, ${env:VAR} and ${secret:NAME}; $${
// stands for ${.
// What a variable holds is not looked at again.
func (e *expander) expand(s string) (string, error) {
	if e == nil || !strings.Contains(s, "${") {
		return s, nil
	}
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1])
			b.WriteString("${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		s = s[i+2:]
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return "", &variableError{"a ${ has no closing }", "write $${ for a plain ${"}
		}
		value, err := e.resolve(s[:end])
		if err != nil {
			return "", err
		}
		e.filled += len(value)
		if b.Len()+len(value) > maxExpanded || e.filled > maxFilled {
			return "", &variableError{
				fmt.Sprintf("with ${%s} it grows too long: over %d bytes, or over %d in the whole configuration", shorten(s[:end]), maxExpanded, maxFilled),
				"let the server read the value itself, from a file or its own environment",
			}
		}
		b.WriteString(value)
		s = s[end+1:]
	}
}

// resolve returns the value for what stands between the braces.
func (e *expander) resolve(inner string) (string, error) {
	name, fallback, hasDefault := strings.Cut(inner, ":-")
	if hasDefault && strings.Contains(fallback, "${") {
		return "", &variableError{fmt.Sprintf("the default of ${%s:-…} holds another ${", shorten(name)), "defaults are plain text; a variable in them is not resolved"}
	}
	if secret, ok := strings.CutPrefix(name, secretPrefix); ok {
		return e.secret(secret, fallback, hasDefault)
	}
	name = strings.TrimPrefix(name, "env:")
	if prefix, _, scoped := strings.Cut(name, ":"); scoped {
		return "", editorError(name, prefix)
	}
	if !isVariableName(name) {
		return "", &variableError{fmt.Sprintf("${%s} does not name a variable", shorten(inner)), "write ${NAME}, ${NAME:-default}, or $${ for a plain ${"}
	}
	value, set := e.lookup(name)
	switch {
	case hasDefault && value == "":
		return fallback, nil
	case set:
		if e.used == nil {
			e.used = map[string]string{}
		}
		e.used[name] = value
		return value, nil
	}
	for _, v := range editorVariables {
		if v == name {
			return "", editorError(name, name)
		}
	}
	return "", &variableError{
		fmt.Sprintf("the environment variable %s is not set", name),
		fmt.Sprintf("set it where the host is started, or write ${%s:-default}", name),
	}
}

// secret returns the value of a secret of the store.
func (e *expander) secret(name, fallback string, hasDefault bool) (string, error) {
	if e.secrets == nil {
		return "", &variableError{fmt.Sprintf("${%s%s} cannot be used here", secretPrefix, shorten(name)), "write the value itself, or an environment variable as ${NAME}"}
	}
	value, ok, err := e.secrets.resolve(name)
	switch {
	case err != nil:
		return "", err
	case ok:
		if e.used == nil {
			e.used = map[string]string{}
		}
		e.used[secretPrefix+name] = value
		return value, nil
	case hasDefault:
		return fallback, nil
	}
	e.secrets.lacks(name)
	return "", &variableError{fmt.Sprintf("the secret %s is not stored", shorten(name)), "store it: metamcp secrets set " + shorten(name)}
}

func editorError(name, prefix string) error {
	hint := "write the value itself, or an environment variable as ${NAME}"
	switch prefix {
	case "input":
		hint = "VS Code asks for it when it starts a server; put the value into an environment variable and write ${NAME}"
	case "userHome":
		hint = "write ${HOME}"
	}
	return &variableError{fmt.Sprintf("${%s} can be filled by an editor only, not by metamcp", shorten(name)), hint}
}

// isVariableName takes what systems allow in practice; Windows has names like
// ProgramFiles(x86).
func isVariableName(name string) bool {
	for i, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '_':
		case i > 0 && (r >= '0' && r <= '9' || r == '.' || r == '-' || r == '(' || r == ')'):
		default:
			return false
		}
	}
	return name != ""
}
