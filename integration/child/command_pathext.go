package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// resolveByExtension finds the file to execute by the rules of Windows: a name may lack
// its extension, which PATHEXT lists ("npx" is npx.cmd), and the names of variables
// ignore case. As elsewhere, a bare name is looked up in the PATH that the child itself
// gets, and any other name is relative to the child's working directory. The path is
// absolute, so that it is that file from wherever it is looked at.
func resolveByExtension(spec *messages.ServerSpec) (string, error) {
	if spec.Command == "" {
		return "", noCommand(spec)
	}
	extensions := extensionsOf(variable(spec.Env, "PATHEXT", strings.EqualFold))
	if strings.ContainsAny(spec.Command, `\/:`) {
		if file := withExtension(under(spec.Cwd, spec.Command), extensions); file != "" {
			return absolute(spec, file)
		}
		if err := checkFile(spec); err != nil {
			return "", err
		}
		return absolute(spec, under(spec.Cwd, spec.Command))
	}
	path := variable(spec.Env, "PATH", strings.EqualFold)
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		if file := withExtension(under(spec.Cwd, filepath.Join(dir, spec.Command)), extensions); file != "" {
			return absolute(spec, file)
		}
	}
	return "", notInPath(spec, path)
}

func absolute(spec *messages.ServerSpec, file string) (string, error) {
	whole, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("cannot start %q: this host's working directory cannot be read, in which %s is; give its full path: %w", spec.Name, file, err)
	}
	return whole, nil
}

// extensionsOf are those that a value of PATHEXT lists.
func extensionsOf(list string) (extensions []string) {
	for e := range strings.SplitSeq(strings.ToLower(list), ";") {
		if e = strings.TrimSpace(e); e != "" {
			extensions = append(extensions, "."+strings.TrimPrefix(e, "."))
		}
	}
	if extensions == nil {
		return []string{".com", ".exe", ".bat", ".cmd"}
	}
	return extensions
}

// withExtension is the file that stands for a name which may lack its extension; "":
// there is none. A file without any is a script for other systems, as npm puts it
// beside its npx.cmd, and does not count.
func withExtension(name string, extensions []string) string {
	if filepath.Ext(name) != "" && isFile(name) {
		return name
	}
	for _, e := range extensions {
		if isFile(name + e) {
			return name + e
		}
	}
	return ""
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}
