package config

import (
	"encoding/json"
	"fmt"

	"github.com/metamcp/metamcp/messages"
)

// One reads one entry as if it stood in a file of these sources, of which no
// other server is in the result. The entry is whatever encodes to the JSON of
// one. The error is a *messages.Error; a broken entry has none, but the spec's
// Err.
func One(sources Sources, name string, entry any) (*messages.ServerSpec, error) {
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: entry}})
	if err != nil {
		return nil, failure("", "the entry of %s cannot be written as JSON: %s", quote(name), err)
	}
	cfg, err := sources.resolved().build(begin(), []content{{path: "the entry of " + name, data: text, regular: true}}, nil)
	if err != nil {
		return nil, err
	}
	if spec := cfg.Server(name); spec != nil {
		return spec, nil
	}
	return nil, failure("", "the entry of %s cannot be used: %s", quote(name), fmt.Sprint(cfg.Problems))
}
