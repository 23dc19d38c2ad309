package metamcp

import (
	"encoding/json"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// scrubFrame takes secrets out of what a server says to its caller.
func (e *Engine) scrubFrame(server string, f *messages.Frame) {
	secrets := e.secrets.Load()
	if secrets == nil {
		return
	}
	if spec := e.Config().Server(server); spec != nil && spec.Unscrubbed {
		return
	}
	for _, part := range []*json.RawMessage{&f.Result, &f.Error, &f.Params} {
		var counts scrub.Counts
		*part, counts = secrets.Result(*part)
		f.Redacted = scrub.Add(f.Redacted, counts)
	}
}

func (e *Engine) learnSecrets(cfg *config.Config) {
	if cfg.Settings.Scrub {
		stored := make(map[string]string, len(cfg.Secrets()))
		for name, value := range cfg.Secrets() {
			stored["secret:"+name] = value
		}
		e.secrets.Store(scrub.New(append([]*messages.ServerSpec{{Filled: stored}}, cfg.Servers...)))
		return
	}
	e.secrets.Store(nil)
}
