package config

import (
	"encoding/json"
	"fmt"

	"github.com/metamcp/metamcp/messages"
)

// One reads one entry as if it stood in a file of these sources, for a program
// that runs with current: its secrets are those of current's state folder, and
// no setting is read, since one that agrees with others in current need not
// agree with the defaults. The entry is whatever encodes to the JSON of one. The
// error is a *messages.Error; a broken entry has none, but the spec's Err.
func One(sources Sources, current *Config, name string, entry any) (*messages.ServerSpec, error) {
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: entry}})
	if err != nil {
		return nil, failure("", "the entry of %s cannot be written as JSON: %s", quote(name), err)
	}
	b := sources.resolved().builder(func() string { return current.Settings.StateDir }, known{})
	if err := b.file(content{path: "the entry of " + name, data: text, regular: true}); err != nil {
		return nil, err
	}
	if spec := b.cfg.Server(name); spec != nil {
		return spec, nil
	}
	return nil, failure("", "the entry of %s cannot be used: %s", quote(name), fmt.Sprint(b.cfg.Problems))
}
