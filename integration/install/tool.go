package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/child"
)

// maxOutput bounds what is kept of each stream of a package manager.
const maxOutput = 4 << 20

// lookup returns a variable of an environment, "" where there is none.
func lookup(environ []string, name string) string {
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		if key == name || runtime.GOOS == "windows" && strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// with returns an environment with some variables set anew.
func with(environ []string, pairs ...string) []string {
	out := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(pairs, func(p string) bool { return strings.HasPrefix(p, key+"=") })
	})
	return append(out, pairs...)
}

// find returns the file of a tool, "" where there is none. Relative folders in
// PATH do not count: what lies there depends on where one stands.
func find(environ []string, name string) string {
	path := lookup(environ, "PATH")
	suffixes := []string{""}
	if runtime.GOOS == "windows" {
		suffixes = []string{".exe", ".cmd", ".bat"}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, suffix := range suffixes {
			file := filepath.Join(dir, name+suffix)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && (runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
				return file
			}
		}
	}
	return ""
}

// command is one run of a tool.
type command struct {
	tool  string
	args  []string
	dir   string // "": a folder without anybody's configuration
	env   []string
	limit time.Duration
}

func (c *command) words() []string { return append([]string{c.tool}, c.args...) }

// run runs a tool to its end. The outcome is there with an error where the tool
// ended by itself, with another status than 0; such an error is not to be shown
// without a look at what was said.
func (p *Plan) run(ctx context.Context, c *command) (*child.Outcome, error) {
	file := find(p.opts.Environ, c.tool)
	if file == "" {
		return nil, fail(NoTool, toolHint[c.tool], "%s is not in PATH", c.tool)
	}
	if c.dir == "" {
		// A project's own configuration, where one stands in a project, is none of
		// ours.
		c.dir = filepath.VolumeName(p.opts.StateDir) + string(filepath.Separator)
	}
	bounded, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	out, err := p.runner.Run(bounded, &child.Program{Path: file, Args: c.args, Dir: c.dir, Env: with(p.environ(), c.env...), MaxOutput: maxOutput})
	what := strings.Join(c.words()[:min(2, len(c.args)+1)], " ")
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, ctx.Err()
	case out == nil && errors.Is(err, context.DeadlineExceeded):
		return nil, &Error{
			Reason: TimedOut, Message: fmt.Sprintf("%s was not started: there was no time left for it", what),
			Hint: "Try again; the network or the registry may be slow.", Cause: err,
		}
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &Error{
			Reason: TimedOut, Message: fmt.Sprintf("%s took longer than %v and was ended, with all that it had started", what, c.limit),
			Hint: "Try again; the network or the registry may be slow.", Output: tail(out.Stderr), Cause: err,
		}
	case err != nil:
		return nil, &Error{Reason: NoTool, Message: fmt.Sprintf("%s could not be started: %v", c.tool, err), Cause: err}
	case out.Code != 0:
		said := tail(out.Stderr)
		if said == "" {
			said = tail(out.Stdout)
		}
		if isFull(nil, said) {
			return nil, &Error{Reason: DiskFull, Message: "the disk is full: " + what + " could not write", Hint: fullHint, Output: said}
		}
		ended := fmt.Sprintf("exit status %d", out.Code)
		if out.Signal != "" {
			ended = out.Signal
		}
		return out, &Error{Reason: Failed, Message: fmt.Sprintf("%s failed (%s): %s", what, ended, lastLine(said)), Output: said}
	}
	return out, nil
}

var toolHint = map[string]string{
	"npm":    "Install Node.js 20 or newer, which brings npm: https://nodejs.org",
	"node":   "Install Node.js 20 or newer: https://nodejs.org",
	"docker": "Install Docker, and start its engine: https://docs.docker.com/get-docker",
}

// environ is the host's environment without what an npm that started this
// process says of its own run.
func (p *Plan) environ() []string {
	return slices.DeleteFunc(slices.Clone(p.opts.Environ), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		lower := strings.ToLower(key)
		switch lower {
		case "init_cwd", "npm_command", "npm_execpath", "npm_node_execpath", "npm_config_local_prefix", "npm_config_prefix",
			"npm_config_global_prefix", "npm_config_global", "npm_config_location", "npm_config_dry_run", "npm_config_workspace", "npm_config_workspaces":
			return true
		}
		return strings.HasPrefix(lower, "npm_package_") || strings.HasPrefix(lower, "npm_lifecycle_")
	})
}

// lastLine is what a tool said last that says something.
func lastLine(said string) string {
	lines := strings.Split(said, "\n")
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return "it said nothing"
}
