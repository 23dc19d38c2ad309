package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/prep"
)

const modelHint = "Install a BERT embedding model in the GGUF format, such as with `metamcp model install all-minilm-l6-v2`."

// workerError explains why the worker could not be started.
func workerError(path string, err error) *embed.Error {
	e := &embed.Error{
		Reason: embed.Misconfigured, Cause: err,
		Message: fmt.Sprintf("the worker %s cannot be started: %v", path, err),
		Hint:    "Check the file and its permissions.",
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		e.Message = fmt.Sprintf("there is no worker %s, which runs local models", path)
		e.Hint = "Build it in the source of metamcp with `go build ./cmd/metamcp-embed`, and put it beside metamcp."
	}
	return e
}

func loadError(model, message string) *embed.Error {
	return &embed.Error{
		Reason:  embed.Misconfigured,
		Message: fmt.Sprintf("the model %s cannot be loaded: %s", model, clean(message)),
		Hint:    modelHint,
	}
}

func textError(id, message string) *embed.Error {
	e := &embed.Error{Reason: embed.BadAnswer, Message: fmt.Sprintf("the local model %s could not embed a text: %s", id, clean(message))}
	// What kelindar/search says of models that frame texts otherwise than BERT.
	if strings.Contains(message, "not SEP") || strings.Contains(message, "does not support embedding") {
		e.Reason, e.Hint = embed.Misconfigured, modelHint
	}
	return e
}

// explain tells why the process ended; the reader ended with err.
func (p *process) explain(err error) *embed.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.stderr.lines()
	var version *versionError
	switch {
	case p.failed != nil:
		withStderr(p.failed, lines)
		return p.failed
	case p.reason != "":
		e := &embed.Error{Reason: embed.Unavailable, Message: "the worker of the local embedder was killed: " + p.reason}
		withStderr(e, lines)
		return e
	case errors.As(err, &version):
		return &embed.Error{
			Reason: embed.Misconfigured, Cause: err,
			Message: fmt.Sprintf("the worker %s does not fit: %v", p.cfg.Worker, err),
			Hint:    "Install metamcp and metamcp-embed of one version.",
		}
	case !p.greeted && libraryTrouble(lines) != "":
		return &embed.Error{
			Reason: embed.Misconfigured, Cause: err,
			Message: fmt.Sprintf("the worker cannot load %s, the llama.cpp that local models need: %s", library, libraryTrouble(lines)),
			Hint: fmt.Sprintf("Take it from the folder dist of https://github.com/kelindar/search (Git LFS; Linux and Windows on x64), or build it as its README says, and put it in %s.",
				strings.Join(append(append([]string(nil), p.cfg.LibraryDirs...), systemFolder), " or ")),
		}
	}
	e := &embed.Error{
		Reason: embed.Unavailable, Cause: errors.Join(errCrashed, err),
		Message: fmt.Sprintf("the worker of the local embedder crashed (%s)", p.cmd.ProcessState),
	}
	if err != nil && !isEnd(err) {
		e.Message = fmt.Sprintf("the worker of the local embedder broke the protocol: %v", err)
	}
	withStderr(e, lines)
	return e
}

func withStderr(e *embed.Error, lines []string) {
	const most = 3
	if len(lines) > 0 {
		e.Message += "; it last said: " + strings.Join(lines[max(0, len(lines)-most):], " | ")
	}
}

// libraryTrouble finds why kelindar/search panicked while it was initialised:
// there is no library, it cannot be loaded, or it is another one.
func libraryTrouble(lines []string) string {
	for _, l := range lines {
		l = strings.TrimPrefix(l, "panic: ")
		switch {
		case strings.Contains(l, "Library '") && strings.Contains(l, "not found"):
			return "it was not found"
		case strings.Contains(l, library), strings.Contains(l, "undefined symbol"), strings.Contains(l, "symbol not found"):
			return l
		}
	}
	return ""
}

// tailSize is how much of the worker's standard error is kept.
const tailSize = 16 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

// lines returns what tells something, without the stacks of Go.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var told []string
	for l := range strings.Lines(string(t.text)) {
		if strings.HasPrefix(l, "goroutine ") || strings.HasPrefix(l, "SIGABRT: abort") {
			break
		}
		if l = clean(l); l != "" {
			told = append(told, l)
		}
	}
	return told
}

// clean makes one short line of a text that somebody else wrote.
func clean(text string) string {
	const most = 300
	return prep.Line(text, most)
}
