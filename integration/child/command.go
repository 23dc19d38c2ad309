package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/metamcp/metamcp/messages"
)

// Why a process could not be started.
var (
	ErrNoCommand = errors.New("the command was not found")
	ErrNoCwd     = errors.New("the working directory cannot be used")
)

// launchError says for people why a process did not start and keeps the
// evidence for programs.
type launchError struct {
	text   string
	causes []error
}

func (e *launchError) Error() string   { return e.text }
func (e *launchError) Unwrap() []error { return e.causes }

// checkCwd tells a missing folder apart from a missing command: the system
// reports both with the same errno.
func checkCwd(spec *messages.ServerSpec) error {
	if spec.Cwd == "" {
		return nil
	}
	info, err := os.Stat(spec.Cwd)
	switch {
	case err != nil:
		return &launchError{
			text:   fmt.Sprintf("cannot start %q: its working directory %q cannot be used (%v); correct \"cwd\" or make the folder", spec.Name, spec.Cwd, reason(err)),
			causes: []error{ErrNoCwd, chdirError(spec, err)},
		}
	case !info.IsDir():
		return &launchError{
			text:   fmt.Sprintf("cannot start %q: its working directory %q is not a folder; correct \"cwd\"", spec.Name, spec.Cwd),
			causes: []error{ErrNoCwd, chdirError(spec, syscall.ENOTDIR)},
		}
	}
	return nil
}

// chdirError is what the system would have said, so that whoever reads the
// chain need not know this package.
func chdirError(spec *messages.ServerSpec, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &fs.PathError{Op: "chdir", Path: spec.Cwd, Err: err}
}

// noCommand is the error for an entry that names none.
func noCommand(spec *messages.ServerSpec) error {
	return &launchError{
		text:   fmt.Sprintf("cannot start %q: its command is empty; set \"command\"", spec.Name),
		causes: []error{ErrNoCommand, &exec.Error{Name: spec.Command, Err: exec.ErrNotFound}, syscall.ENOENT},
	}
}

// notInPath is the error for a bare name that is in no folder of path.
func notInPath(spec *messages.ServerSpec, path string) error {
	return &launchError{
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

// under is where a file is for a process that runs in cwd. One that has no drive, but
// begins at the root of one, is on that of cwd.
func under(cwd, file string) string {
	switch {
	case cwd == "" || filepath.IsAbs(file) || filepath.VolumeName(file) != "":
		return file
	case os.IsPathSeparator(file[0]):
		return filepath.VolumeName(cwd) + file
	}
	return filepath.Join(cwd, file)
}

// variable is what a child with the environment env has for key, by same: where it has
// none, what this host has.
func variable(env []string, key string, same func(a, b string) bool) string {
	value, found := "", false
	for _, e := range env {
		if k, v, ok := strings.Cut(e, "="); ok && same(k, key) {
			value, found = v, true
		}
	}
	if !found {
		return os.Getenv(key)
	}
	return value
}

// withArgs adds to the causes of why a command was not found that it holds its
// arguments too, if it does.
func withArgs(spec *messages.ServerSpec, causes ...error) []error {
	wrong := messages.FindArgs(spec.Command, func(program string) bool {
		with := *spec
		with.Command = program
		_, err := resolve(&with)
		return err == nil
	})
	if wrong != nil {
		causes = append(causes, wrong)
	}
	return causes
}

// startError explains an error of the system for a file that was there a
// moment ago.
func startError(spec *messages.ServerSpec, path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if line := interpreter(path); line != "" {
			return &launchError{
				text:   fmt.Sprintf("cannot start %q: %s exists, but the interpreter that its first line names (%s) does not; install it or correct the line", spec.Name, path, line),
				causes: []error{ErrNoCommand, err},
			}
		}
		return &launchError{
			text:   fmt.Sprintf("cannot start %q: %s was not found or needs a loader that this system lacks", spec.Name, path),
			causes: []error{ErrNoCommand, err},
		}
	case errors.Is(err, fs.ErrPermission):
		return &launchError{
			text:   fmt.Sprintf("cannot start %q: %s may not be executed by this user; check its permissions (chmod +x) and those of its folder", spec.Name, path),
			causes: []error{err},
		}
	}
	return &launchError{
		text:   fmt.Sprintf("cannot start %q (%s): %v", spec.Name, path, reason(err)),
		causes: []error{err},
	}
}

// interpreter returns the "#!" line of a script, "" for anything else.
func interpreter(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 128)
	n, _ := f.Read(head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	if !strings.HasPrefix(line, "#!") {
		return ""
	}
	return strings.TrimSpace(line)
}

// reason is the innermost text of a path error, since the path is named
// already.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
