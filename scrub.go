package metamcp

import (
	"encoding/json"
	"slices"

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

// maxFormer bounds the servers of earlier configurations whose secrets are
// remembered.
const maxFormer = 1024

// learnSecrets makes the secrets of a configuration known, and those of earlier
// ones: calls of a server that was changed or removed still end, and what it
// said is repeated by logs and results for as long as the host lives.
func (e *Engine) learnSecrets(cfg *config.Config) {
	e.former = slices.Clone(e.former[max(0, len(e.former)-maxFormer):])
	e.tokens.mu.Lock()
	defer e.tokens.mu.Unlock()
	e.tokens.cfg, e.tokens.former = cfg, e.former
	e.tokens.forgetGone(func(server string) bool { return cfg.Server(server) != nil })
	e.learnAll()
}

// learnAll makes the scrubber of all that is secret. e.tokens.mu is held.
func (e *Engine) learnAll() {
	cfg := e.tokens.cfg
	if !cfg.Settings.Scrub {
		e.secrets.Store(nil)
		return
	}
	stored := make(map[string]string, len(cfg.Secrets()))
	for name, value := range cfg.Secrets() {
		stored["secret:"+name] = value
	}
	specs := slices.Concat([]*messages.ServerSpec{{Filled: stored}}, cfg.Servers, e.tokens.former)
	add := func(name, secret string) {
		specs = append(specs, &messages.ServerSpec{Filled: map[string]string{"secret:" + name: secret}})
	}
	for server, secrets := range e.tokens.byServer {
		for _, secret := range secrets {
			add("oauth of "+server, secret)
		}
	}
	for _, one := range e.tokens.gone {
		add("oauth of "+one.server, one.secret)
	}
	for name, secret := range e.tokens.entered {
		add(name, secret)
	}
	e.secrets.Store(scrub.New(specs))
}
