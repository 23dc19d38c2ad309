package doctor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/messages"
)

// lookupError says why a command cannot be started, or not in its working folder.
type lookupError struct{ id, found, why, fix string }

func (e *lookupError) Error() string { return e.found }

func (e *lookupError) result() Result {
	return Result{ID: e.id, Status: Fail, Found: e.found, Why: e.why, Fix: e.fix}
}

// Missing says in two words what keeps a local server's entry from being started, why,
// and what can be done about it; both are "" where nothing does, as far as files tell.
func Missing(spec *messages.ServerSpec) (what, why string) {
	what, err := "no folder", workingFolder(spec, spec.Cwd)
	if err == nil {
		what = "no command"
		_, err = lookup(spec)
	}
	var missing *lookupError
	if !errors.As(err, &missing) {
		return "", ""
	}
	return what, missing.found + ". " + missing.fix
}

// workingFolder says why dir cannot be the working folder of an entry. The error is a
// *lookupError.
func workingFolder(spec *messages.ServerSpec, dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("it is no folder")
	}
	if err == nil {
		return nil
	}
	return &lookupError{"command.cwd", fmt.Sprintf("its working folder %s cannot be used: %v", spec.Cwd, cause(err)),
		"The server cannot be started.", fmt.Sprintf("mkdir -p %s, or correct \"cwd\" at %s.", messages.ShellWord(spec.Cwd), spec.Source)}
}

// lookup finds the file that an entry's command starts, by the rules of the
// system and with the PATH that the child gets. The error is a *lookupError.
func lookup(spec *messages.ServerSpec) (string, error) {
	if isPath(spec.Command) {
		file := under(spec.Cwd, spec.Command)
		return executable(file, spec)
	}
	path := environ(spec.Env, "PATH")
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		for _, name := range names(spec.Command, environ(spec.Env, "PATHEXT")) {
			file := under(spec.Cwd, filepath.Join(dir, name))
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				continue
			}
			found, err := executable(file, spec)
			if err == nil {
				return found, nil
			}
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	fix := fmt.Sprintf(`Install %q, or give its full path as "command" at %s.`, spec.Command, spec.Source)
	if advice := argsAdvice(spec); advice != "" {
		fix = advice
	} else if path == "" {
		fix = fmt.Sprintf("The child gets no PATH; give the full path as \"command\" at %s.", spec.Source)
	} else if how := howToInstall[base(spec.Command)]; how != "" {
		fix = fmt.Sprintf("%s, or give its full path as \"command\" at %s.", how, spec.Source)
	}
	return "", &lookupError{"command.found", fmt.Sprintf("the command %q is not in the PATH that the server gets", spec.Command),
		"The server cannot be started. A client that is started from a menu often has a shorter PATH than a terminal.", fix}
}

// argsAdvice says how an entry is to be written whose command, which is not there, holds
// its arguments too; "": that is not what is wrong.
func argsAdvice(spec *messages.ServerSpec) string {
	wrong := messages.FindArgs(spec.Command, func(program string) bool {
		with := *spec
		with.Command = program
		_, err := lookup(&with)
		return err == nil
	})
	if wrong == nil {
		return ""
	}
	return fmt.Sprintf("%s The entry is at %s.", wrong.Advice(), spec.Source)
}

// howToInstall tells where commands come from that servers often need.
var howToInstall = map[string]string{
	"npx":     "Install Node.js (https://nodejs.org), which brings npx",
	"npm":     "Install Node.js (https://nodejs.org), which brings npm",
	"node":    "Install Node.js (https://nodejs.org)",
	"uvx":     "Install uv (https://docs.astral.sh/uv), which brings uvx",
	"uv":      "Install uv (https://docs.astral.sh/uv)",
	"python":  "Install Python (https://www.python.org), or write python3 where only that exists",
	"python3": "Install Python (https://www.python.org)",
	"docker":  "Install Docker (https://docs.docker.com/get-docker)",
	"bunx":    "Install Bun (https://bun.sh)",
	"deno":    "Install Deno (https://deno.com)",
}

// executable reports whether a file can be started.
func executable(file string, spec *messages.ServerSpec) (string, error) {
	const why = "The server cannot be started."
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fix := fmt.Sprintf("Install it, or correct \"command\" at %s.", spec.Source)
		if advice := argsAdvice(spec); advice != "" {
			fix = advice
		}
		return "", &lookupError{"command.found", "there is no file " + file, why, fix}
	case err != nil:
		return "", &lookupError{"command.found", fmt.Sprintf("%s cannot be looked at: %v", file, cause(err)), why, "Check the permissions of its folders."}
	case info.IsDir():
		return "", &lookupError{"command.executable", file + " is a folder", why, fmt.Sprintf("Name the program in it, in \"command\" at %s.", spec.Source)}
	case !mayExecute(file, info):
		return "", &lookupError{"command.executable", file + " is not executable", why, "chmod +x " + messages.ShellWord(file)}
	}
	return file, nil
}

// interpreter returns what a script's first line starts; "": it is no script.
// For env it is the program that env starts.
func interpreter(file string) (program string, viaEnv bool) {
	f, err := regular.Open(file, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	const longest = 1024
	line, _ := bufio.NewReader(io.LimitReader(f, longest)).ReadString('\n') // what is shorter is the line
	text, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(text)
	if !ok || len(words) == 0 {
		return "", false
	}
	if filepath.Base(words[0]) != "env" {
		return words[0], false
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w, true
		}
	}
	return words[0], false
}

// readBounded reads a regular file of at most so many bytes.
func readBounded(file string, most int64) ([]byte, error) {
	text, _, err := regular.Read(file, most)
	if errors.Is(err, regular.ErrTooLarge) {
		err = fmt.Errorf("%s is larger than %d bytes", file, most)
	}
	return text, err
}

// environ returns a variable of a child's environment.
func environ(env []string, key string) string {
	value := ""
	for _, kv := range env {
		if k, v, ok := strings.Cut(kv, "="); ok && sameVariable(k, key) {
			value = v
		}
	}
	return value
}

func under(dir, file string) string {
	if dir == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// base is a command's name without folder and extension.
func base(command string) string {
	name := strings.ToLower(filepath.Base(command))
	for _, ext := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

// cause is a file error without the path, which is named already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
