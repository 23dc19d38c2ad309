package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/messages"
)

const (
	// leastNode is what most servers of npm need.
	leastNode = 20
	// askLimit is how long a program may take to tell its version.
	askLimit = 8 * time.Second
	// maxSaid bounds what is kept of what it says.
	maxSaid = 4 << 10
)

// check asks a runtime for its version.
func (u *use) check(ctx context.Context) []Result {
	with := *u.spec
	with.Command = u.program
	file, err := lookup(&with)
	if err != nil {
		why := fmt.Sprintf("It is needed by %s.", u.usedBy())
		if base(u.spec.Command) == base(u.program) {
			return []Result{{Status: Skipped, Found: "it was not found; see command.found of " + u.usedBy()}}
		}
		return []Result{{Status: Fail, Found: err.Error(), Why: why, Fix: howToInstall[base(u.program)] + "."}}
	}
	if u.kind == "docker" {
		return u.docker(ctx, file)
	}
	said, err := ask(ctx, &with, file, "--version")
	if err != nil {
		return []Result{{
			Status: Fail, Found: fmt.Sprintf("%s --version failed: %v", file, err), Why: fmt.Sprintf("It is needed by %s.", u.usedBy()),
			Fix: "Run that command by hand; " + lowerFirst(howToInstall[base(u.program)]) + " anew if it fails there too.",
		}}
	}
	r := Result{Status: OK, Found: fmt.Sprintf("%s, %s, for %s", firstLine(said), file, u.usedBy())}
	if u.kind != "node" {
		return []Result{r}
	}
	switch major, ok := majorVersion(said); {
	case !ok:
		r.Status, r.Why, r.Fix = Warn, "It does not say a version of Node.js.", "Run "+messages.ShellWord(file)+" --version by hand."
	case major < leastNode:
		r.Status = Warn
		r.Why = fmt.Sprintf("Most servers of npm need Node.js %d or later, and fail with errors of syntax or missing functions on an older one.", leastNode)
		r.Fix = fmt.Sprintf("Install Node.js %d or later (https://nodejs.org, or: nvm install --lts).", leastNode)
	}
	return []Result{r}
}

// docker asks whether the daemon answers.
func (u *use) docker(ctx context.Context, file string) []Result {
	said, err := ask(ctx, u.spec, file, "version", "--format", "{{.Server.Version}}")
	if err != nil {
		return []Result{{
			Status: Fail, Found: fmt.Sprintf("the Docker daemon does not answer: %v", err), Why: "Servers in containers cannot be started: " + u.usedBy() + ".",
			Fix: "Start Docker Desktop, or: sudo systemctl start docker. If permission was denied: sudo usermod -aG docker $USER, and log in anew.",
		}}
	}
	return []Result{{Status: OK, Found: fmt.Sprintf("daemon %s, %s, for %s", firstLine(said), file, u.usedBy())}}
}

// ask runs a program with a child's environment and returns what it says on
// stdout. The error holds the end of what it said on stderr.
func ask(parent context.Context, spec *messages.ServerSpec, file string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(parent, askLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Cwd
	out, complaint := &beginning{}, &beginning{}
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.WaitDelay = 500 * time.Millisecond // for those that inherited the pipes
	ownGroup(cmd)
	err := cmd.Run()
	switch {
	case ctx.Err() != nil && parent.Err() == nil:
		return "", fmt.Errorf("it did not end within %s", askLimit)
	case ctx.Err() != nil:
		return "", errors.New("it did not end in time")
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return out.String(), nil
	}
	if text := firstLine(complaint.String()); text != "" {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return "", err
}

// beginning keeps the beginning of what is written to it.
type beginning struct{ kept bytes.Buffer }

// Write implements io.Writer.
func (b *beginning) Write(text []byte) (int, error) {
	if room := maxSaid - b.kept.Len(); room > 0 {
		_, _ = b.kept.Write(text[:min(room, len(text))]) // never fails
	}
	return len(text), nil
}

func (b *beginning) String() string { return b.kept.String() }

var versionNumber = lazyregexp.New(`(\d+)\.\d+`)

// majorVersion finds the first number of a version.
func majorVersion(text string) (int, bool) {
	m := versionNumber().FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

func firstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

func lowerFirst(text string) string {
	if text == "" {
		return "install it"
	}
	return strings.ToLower(text[:1]) + text[1:]
}
