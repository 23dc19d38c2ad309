//go:build unix

package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/metamcp/metamcp/messages"
)

// resolve finds the file to execute. A bare name is looked up in the PATH that
// the child itself gets, as a shell would with that environment; a name with a
// slash is relative to the child's working directory.
func resolve(spec *messages.ServerSpec) (string, error) {
	if err := checkCwd(spec); err != nil {
		return "", err
	}
	if spec.Command == "" {
		return "", noCommand(spec)
	}
	if strings.Contains(spec.Command, "/") {
		return spec.Command, checkFile(spec)
	}
	path := variable(spec.Env, "PATH", func(a, b string) bool { return a == b })
	var denied string
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		file := filepath.Join(dir, spec.Command)
		if !filepath.IsAbs(file) {
			file = "./" + file
		}
		info, err := os.Stat(under(spec.Cwd, file))
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		denied = file
	}
	if denied != "" {
		return "", &launchError{
			text:   fmt.Sprintf("cannot start %q: %s is not executable; check its permissions (chmod +x)", spec.Name, denied),
			causes: []error{&exec.Error{Name: spec.Command, Err: syscall.EACCES}},
		}
	}
	return "", notInPath(spec, path)
}
