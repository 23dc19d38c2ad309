package metamcp

import (
	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/builtin"
	"github.com/metamcp/metamcp/integration/config"
)

// embedderChoice is what decides which embedder there is; it can be compared.
type embedderChoice struct {
	kind, url, model, keyVariable string
}

func embedderSettings(cfg *config.Config) embedderChoice {
	s := cfg.Settings.Search
	if s.Ranking == "anygpt" {
		return embedderChoice{kind: "none"} // that ranking knows no meaning
	}
	return embedderChoice{s.Embedder, s.EmbedderURL, s.Model, s.KeyVariable}
}

// embedder makes the embedder that the configuration asks for; nil: none. One
// that cannot be made is logged, and search goes by words alone.
func (e *Engine) embedder(cfg *config.Config) embed.Embedder {
	made, err := newEmbedder(embedderSettings(cfg))
	if err != nil {
		e.log.Error("the embedder is not usable; search goes by words alone", "why", err)
		return nil
	}
	return made
}

func newEmbedder(choice embedderChoice) (embed.Embedder, error) {
	switch choice.kind {
	case "none":
		return nil, nil //nolint:nilnil // no embedder is a choice, not a failure
	default:
		return builtin.New()
	}
}
