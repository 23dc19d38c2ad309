package doctor

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/metamcp/metamcp/integration/config"
)

// Patient is what is looked at.
type Patient struct {
	// Config is what was loaded; after a failure, what is known without the
	// files. It is never nil.
	Config *config.Config
	// LoadError is why the files could not be loaded; nil: they were.
	LoadError error
	// FilesFrom says how the files were named: "--config", "METAMCP_CONFIG" or
	// "" where they were looked for.
	FilesFrom string
	// Servers are the names of the only servers to look at; empty: all.
	Servers []string

	Home, Cwd  string // absolute
	GOOS       string // whose places of files are meant; that of the program
	Getenv     func(string) string
	Executable string // this program's file as clients should start it, absolute
	Version    string // of this program

	// Fix mends what is safe to mend.
	Fix bool
}

// Checks are all checks that need no running engine.
func (p *Patient) Checks() []Check {
	var all []Check
	for _, part := range [][]Check{p.configChecks(), p.commandChecks(), p.pinChecks(), p.stateChecks(), p.hostChecks(), p.httpChecks(), p.clientChecks()} {
		all = append(all, part...)
	}
	return all
}

// absolute is a path as the user of the home and working folder means it.
func (p *Patient) absolute(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = filepath.Join(p.Home, path[1:])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Cwd, path)
	}
	return filepath.Clean(path)
}

// isSelf reports whether a file is this program.
func (p *Patient) isSelf(path string) bool {
	a, err := os.Stat(path)
	if err != nil {
		return false
	}
	b, err := os.Stat(p.Executable)
	return err == nil && os.SameFile(a, b)
}

// isMetamcp reports whether a command is metamcp, whichever build of it.
func (p *Patient) isMetamcp(command, resolved string) bool {
	base := strings.ToLower(filepath.Base(strings.ReplaceAll(command, `\`, "/")))
	return strings.TrimSuffix(base, ".exe") == "metamcp" || resolved != "" && p.isSelf(resolved)
}
