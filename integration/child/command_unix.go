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
		return "", &launchError{
			text:   fmt.Sprintf("cannot start %q: its command is empty; set \"command\"", spec.Name),
			causes: []error{ErrNoCommand, &exec.Error{Name: spec.Command, Err: exec.ErrNotFound}, syscall.ENOENT},
		}
	}
	if strings.Contains(spec.Command, "/") {
		return spec.Command, checkFile(spec)
	}
	path, given := lookupEnv(spec.Env, "PATH")
	if !given {
		path = os.Getenv("PATH")
	}
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
	return "", &launchError{
		text: fmt.Sprintf("cannot start %q: spawn %s ENOENT: the command %q was not found in PATH (%s); install it or give its full path",
			spec.Name, spec.Command, spec.Command, path),
		causes: withArgs(spec, ErrNoCommand, &exec.Error{Name: spec.Command, Err: exec.ErrNotFound}, syscall.ENOENT),
	}
}

// checkFile explains the absence of a command that was given as a path.
func checkFile(spec *messages.ServerSpec) error {
	file := under(spec.Cwd, spec.Command)
	info, err := os.Stat(file)
	if err == nil && info.IsDir() {
		return &launchError{
			text:   fmt.Sprintf("cannot start %q: %s is a folder; name the program in it", spec.Name, file),
			causes: []error{ErrNoCommand, &exec.Error{Name: spec.Command, Err: syscall.EISDIR}},
		}
	}
	if os.IsNotExist(err) {
		return &launchError{
			text:   fmt.Sprintf("cannot start %q: spawn %s ENOENT: there is no file %s; install it or correct \"command\"", spec.Name, spec.Command, file),
			causes: withArgs(spec, ErrNoCommand, &exec.Error{Name: spec.Command, Err: exec.ErrNotFound}, err),
		}
	}
	return nil // the system will say what else is wrong
}

func under(cwd, file string) string {
	if cwd == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(cwd, file)
}

func lookupEnv(env []string, key string) (value string, found bool) {
	for _, e := range env {
		if k, v, ok := strings.Cut(e, "="); ok && k == key {
			value, found = v, true
		}
	}
	return value, found
}
