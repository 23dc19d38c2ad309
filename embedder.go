package metamcp

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/builtin"
	"github.com/metamcp/metamcp/index/embed/local"
	"github.com/metamcp/metamcp/index/embed/models"
	"github.com/metamcp/metamcp/index/embed/openai"
	"github.com/metamcp/metamcp/index/embed/voyage"
	"github.com/metamcp/metamcp/integration/config"
)

// embedderChoice is what decides which embedder there is; it can be compared.
type embedderChoice struct {
	kind, url, model, keyVariable, stateDir string
}

func embedderSettings(cfg *config.Config) embedderChoice {
	s := cfg.Settings.Search
	if s.Ranking == "anygpt" {
		return embedderChoice{kind: "none"} // that ranking knows no meaning
	}
	return embedderChoice{s.Embedder, s.EmbedderURL, s.Model, s.KeyVariable, cfg.Settings.StateDir}
}

// embedder makes the embedder that the configuration asks for; nil: none. One
// that cannot be made takes part and fails, so that the index logs why, each
// answer says it, and search goes by words alone.
func (e *Engine) embedder(cfg *config.Config) embed.Embedder {
	choice := embedderSettings(cfg)
	made, err := newEmbedder(choice, e.log)
	if err == nil {
		return made
	}
	why := &embed.Error{Reason: embed.Misconfigured, Message: err.Error(), Cause: err}
	var own *embed.Error
	if errors.As(err, &own) {
		*why = *own
		why.Reason = embed.Misconfigured // whatever it is, it stays so until the configuration changes
	}
	return &unusable{name: choice.kind, why: why}
}

// unusable stands for an embedder that could not be made.
type unusable struct {
	name string
	why  *embed.Error
}

// Model implements embed.Embedder.
func (u *unusable) Model() string { return u.name }

// Batch implements embed.Embedder.
func (*unusable) Batch() int { return 1 }

// Embed implements embed.Embedder.
func (u *unusable) Embed(context.Context, embed.Kind, []string) ([][]float32, error) {
	return nil, u.why
}

// Close implements embed.Embedder.
func (*unusable) Close() error { return nil }

// newEmbedder makes an embedder. It sends nothing and starts nothing yet.
func newEmbedder(c embedderChoice, log *slog.Logger) (embed.Embedder, error) {
	switch c = c.settled(); c.kind {
	case "none":
		return nil, nil //nolint:nilnil // no embedder is a choice, not a failure
	case "voyage":
		key, variable := voyage.FindKey(os.Getenv, true)
		return voyage.New(voyage.Config{Key: key, KeyVariable: variable, Model: c.model, BaseURL: c.url, Log: log})
	case "openai":
		return openai.New(openai.Config{
			BaseURL: c.url, Model: c.model, Key: strings.TrimSpace(os.Getenv(c.keyVariable)), KeyVariable: c.keyVariable, Log: log,
		})
	case "local":
		return c.local(log)
	}
	// Half of the processors at most: while tools are embedded, calls go on.
	return builtin.New(builtin.Threads(max(1, runtime.GOMAXPROCS(0)/2)))
}

// settled is the choice with the embedder that automatic choice takes, and nothing
// that is meant for another: an address is that of an OpenAI-compatible embedder, and
// no model but one of Voyage's is called like those.
func (c embedderChoice) settled() embedderChoice {
	if c.kind != "auto" {
		return c
	}
	switch c.kind = c.first(); c.kind {
	case "voyage":
		c.url = ""
		if !voyage.Has(c.model) || c.isFile() {
			c.model = ""
		}
	case "local":
		if _, err := c.models().Find(c.model); err != nil && voyage.Has(c.model) && !c.isFile() {
			c.model = ""
		}
	}
	return c
}

// first is the embedder that automatic choice takes: the first that somebody
// has configured. A key of OpenAI in the environment is there for many
// reasons; that tools are described to a cloud takes an address as well.
func (c embedderChoice) first() string {
	if key, _ := voyage.FindKey(os.Getenv, false); key != "" {
		return "voyage"
	}
	if c.url != "" {
		return "openai"
	}
	if list, err := c.models().List(); c.isFile() || err == nil && len(list) > 0 {
		if _, err := worker(); err == nil {
			return "local"
		}
	}
	return "builtin"
}

// isFile says that the model is a file for the local embedder, not the name of one.
func (c embedderChoice) isFile() bool { return strings.HasSuffix(c.model, ".gguf") }

func (c embedderChoice) models() *models.Folder {
	return models.In(filepath.Join(c.stateDir, "models"))
}

// local makes the embedder of an installed model, or of a GGUF file.
func (c embedderChoice) local(log *slog.Logger) (embed.Embedder, error) {
	program, err := worker()
	if err != nil {
		return nil, &embed.Error{
			Reason: embed.Misconfigured, Message: "the local embedder needs the program metamcp-embed, which is neither beside metamcp nor in PATH",
			Hint: "Build it in the source of metamcp with go build ./cmd/metamcp-embed, and put it beside metamcp.", Cause: err,
		}
	}
	cfg := local.Config{Worker: program, LibraryDirs: []string{filepath.Dir(program), filepath.Join(c.stateDir, "lib")}, Log: log}
	if c.isFile() {
		cfg.Model, cfg.ID = c.model, fileModel(c.model)
		return local.New(cfg), nil
	}
	m, err := c.models().Find(c.model)
	if err != nil {
		return nil, err
	}
	cfg.Model, cfg.ID = c.models().Path(m.Name), m.ID()
	cfg.QueryPrefix, cfg.DocumentPrefix = m.QueryPrefix, m.DocumentPrefix
	return local.New(cfg), nil
}

// fileModel names the model in a file that nobody installed. Reading gigabytes would
// hold up each start, so path, size and time of change stand for the content: a file
// that was moved or touched only costs embedding anew. One that is not there yet is
// another than any that was there before.
func fileModel(path string) string {
	size, changed := int64(-1), time.Now()
	if info, err := os.Stat(path); err == nil {
		size, changed = info.Size(), info.ModTime()
	}
	const enough = 6
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", path, size, changed.UnixNano()))
	return fmt.Sprintf("%s@%x", filepath.Base(path), sum[:enough])
}

// worker finds metamcp-embed: beside this program, or in PATH.
func worker() (string, error) {
	name := "metamcp-embed"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}
