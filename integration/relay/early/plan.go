package early

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/relay"
)

// plan is what a command line asks for.
type plan struct {
	configs  []string // absolute; those that are there
	stateDir string
}

// The variables that this package understands; another one of ours is for the
// whole program.
const (
	prefix      = "METAMCP_"
	varConfig   = "METAMCP_CONFIG"
	varStateDir = "METAMCP_STATE_DIR"
	varAttach   = "METAMCP_ATTACH"
)

// parse understands "metamcp [serve]" with the flags that name files. Anything
// else is not for this package.
func parse(args, environ []string) (*plan, bool) {
	if len(args) == 0 || !program(args[0]) {
		return nil, false
	}
	vars := map[string]string{}
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(key, prefix) || value == "" {
			continue
		}
		switch key {
		case varConfig, varStateDir, varAttach:
			vars[key] = value
		default:
			if !foreign(key) {
				return nil, false
			}
		}
	}
	given := map[string]string{"state-dir": vars[varStateDir], "attach": vars[varAttach]}
	var files []string
	for rest := args[1:]; len(rest) > 0; {
		word := rest[0]
		rest = rest[1:]
		if word == "serve" && len(rest) == len(args)-2 {
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		switch name {
		case "-c", "--config", "--state-dir", "--attach", "--log-level", "--log-format":
		default:
			return nil, false
		}
		if !joined {
			if len(rest) == 0 {
				return nil, false
			}
			value, rest = rest[0], rest[1:]
		}
		if value == "" {
			return nil, false
		}
		if name == "-c" || name == "--config" {
			files = append(files, value)
		} else {
			given[strings.TrimPrefix(name, "--")] = value
		}
	}
	switch given["attach"] {
	case "", "auto", "require":
	default:
		return nil, false
	}
	switch given["log-level"] {
	case "", "warn", "error":
	default:
		return nil, false
	}
	if len(files) == 0 {
		files = filepath.SplitList(vars[varConfig])
	}
	return locate(files, given["state-dir"])
}

// program tells whether this is metamcp and no test.
func program(arg0 string) bool {
	base := strings.ToLower(filepath.Base(arg0))
	return !strings.HasSuffix(strings.TrimSuffix(base, ".exe"), ".test") && base != "metamcp-watchdog"
}

// foreign are variables of that prefix that are no settings.
func foreign(key string) bool {
	return strings.HasPrefix(key, "METAMCP_TEST_")
}

// locate finds the files and the folder as package config does.
func locate(files []string, stateDir string) (*plan, bool) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, false
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, false
	}
	absolute := func(p string) (string, bool) {
		switch {
		case p == "~":
			p = home
		case strings.HasPrefix(p, "~/"), runtime.GOOS == "windows" && strings.HasPrefix(p, `~\`):
			p = filepath.Join(home, p[2:])
		case strings.HasPrefix(p, "~"), strings.Contains(p, "${"):
			return "", false
		}
		if !filepath.IsAbs(p) {
			p = filepath.Join(cwd, p)
		}
		return filepath.Clean(p), true
	}
	own := filepath.Join(home, ".metamcp")
	p := &plan{stateDir: own}
	if stateDir != "" {
		var ok bool
		if p.stateDir, ok = absolute(stateDir); !ok {
			return nil, false
		}
	}
	for _, f := range files {
		if f == "" {
			continue
		}
		path, ok := absolute(f)
		if !ok {
			return nil, false
		}
		p.configs = append(p.configs, path)
	}
	if p.configs == nil {
		for _, candidate := range []string{filepath.Join(cwd, ".mcp.json"), filepath.Join(own, "mcp.json")} {
			if _, err := os.Stat(candidate); !errors.Is(err, fs.ErrNotExist) {
				p.configs = []string{candidate}
				break
			}
		}
	}
	return p, p.configs != nil && attach.Readable(p.configs)
}

// attach serves the client where a host takes it.
func (p *plan) attach() (code int, taken bool) {
	if terminal(os.Stdin) {
		return 0, false
	}
	for _, h := range attach.Find(p.stateDir, p.configs) {
		if h.Attach == "never" {
			return 0, false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), attach.EarlyPatience)
	defer cancel()
	first, err := attach.Connect(ctx, p.stateDir, p.configs, p.hello(false))
	if err != nil {
		return 0, false
	}
	return relay.Main(first, func(ctx context.Context, resumed bool) (*attach.Conn, error) {
		return attach.Connect(ctx, p.stateDir, p.configs, p.hello(resumed))
	}), true
}

func (p *plan) hello(resumed bool) attach.Hello {
	return attach.Hello{PID: os.Getpid(), Resumed: resumed}
}

// terminal tells whether a person reads and writes here, who is told what
// metamcp is for.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
