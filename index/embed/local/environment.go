package local

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// How llama.cpp is called, found and usually installed here.
var library, libraryPath, systemFolder = func() (name, variable, folder string) {
	switch runtime.GOOS {
	case "windows":
		return "llama_go.dll", "PATH", "a folder of PATH"
	case "darwin":
		return "libllama_go.dylib", "DYLD_LIBRARY_PATH", "/usr/local/lib"
	default:
		return "libllama_go.so", "LD_LIBRARY_PATH", "/usr/local/lib"
	}
}()

// inherited are the variables that the worker gets, by their beginnings: what
// it takes to run and to find libraries and GPUs, and nobody's keys.
var inherited = []string{
	"PATH=", "HOME=", "USER=", "LANG=", "LC_", "TZ=", "TMPDIR=", "TEMP=", "TMP=", "SYSTEMROOT=", "SYSTEMDRIVE=", "WINDIR=", "USERPROFILE=", "LOCALAPPDATA=",
	"GGML_", "LLAMA_", "OMP_", "GOMP_", "CUDA_", "HIP_", "ROCR_", "VK_",
}

func environment(cfg *Config) []string {
	given := cfg.Environ
	if given == nil {
		given = os.Environ()
	}
	// A crash is to tell its cause in its first lines; ggml would even start a
	// debugger, and worker and host would wait for it.
	env := []string{"GOTRACEBACK=none", "GGML_NO_BACKTRACE=1"}
	folders := append([]string(nil), cfg.LibraryDirs...)
	for _, pair := range given {
		name, value, _ := strings.Cut(pair, "=")
		if sameVariable(name, libraryPath) {
			folders = append(folders, filepath.SplitList(value)...)
			continue
		}
		for _, begin := range inherited {
			if len(pair) >= len(begin) && sameVariable(pair[:len(begin)], begin) {
				env = append(env, pair)
				break
			}
		}
	}
	var search []string
	for _, f := range folders {
		// An empty or relative one would mean the working folder.
		if filepath.IsAbs(f) {
			search = append(search, f)
		}
	}
	if len(search) > 0 {
		env = append(env, libraryPath+"="+strings.Join(search, string(filepath.ListSeparator)))
	}
	return env
}

func sameVariable(a, b string) bool {
	if runtime.GOOS == "windows" {
		return strings.EqualFold(a, b)
	}
	return a == b
}

// isEnd reports whether err is that of a stream that just ended.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed)
}
