package doctor

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

// isPath reports whether a command is a path and not looked up in PATH.
func isPath(command string) bool { return strings.ContainsAny(command, `\/:`) }

// names are the file names under which a command is looked up.
func names(command, extensions string) []string {
	if extensions == "" {
		extensions = ".com;.exe;.bat;.cmd"
	}
	list := []string{}
	if filepath.Ext(command) != "" {
		list = append(list, command)
	}
	for ext := range strings.SplitSeq(extensions, ";") {
		list = append(list, command+strings.ToLower(ext))
	}
	return list
}

func sameVariable(a, b string) bool { return strings.EqualFold(a, b) }

// mayExecute is told by the name here.
func mayExecute(string, fs.FileInfo) bool { return true }

// ownGroup does nothing: only the program itself is ended.
func ownGroup(*exec.Cmd) {}

// foreign is not told by what is known here.
func foreign(fs.FileInfo) bool { return false }

// locked reports whether another process holds the lock of a file: the byte
// far behind its end that the index store locks.
func locked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{Offset: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err
}

// nobodyListens reports whether an error says so of a pipe for certain.
func nobodyListens(err error) bool { return errors.Is(err, fs.ErrNotExist) }
