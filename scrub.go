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

// withoutSecrets is an answer as its JSON is without secrets: servers write names,
// versions and descriptions themselves, and whoever made a server's configuration may
// have had them written from it. Where there is no secret in it, it is a itself.
func withoutSecrets[T any](e *Engine, a *T) *T {
	secrets := e.secrets.Load()
	if secrets == nil {
		return a
	}
	text, err := compact(a)
	if err != nil {
		return a // nobody can write it down
	}
	text, found := secrets.Result(text)
	if len(found) == 0 {
		return a
	}
	clean := new(T)
	_ = json.Unmarshal(text, clean) // it was written from one, and strings alone have changed
	return clean
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
	e.tokens.base = nil
	if cfg.Settings.Scrub {
		stored := make(map[string]string, len(cfg.Secrets()))
		for name, value := range cfg.Secrets() {
			stored["secret:"+name] = value
		}
		e.tokens.base = scrub.New(slices.Concat([]*messages.ServerSpec{{Filled: stored}}, cfg.Servers, e.tokens.former))
	}
	e.learnLogins()
}

// learnLogins makes the scrubber of base and of all that is secret beside the
// configuration. e.tokens.mu is held.
func (e *Engine) learnLogins() {
	var all []*messages.ServerSpec
	for server, secrets := range e.tokens.byServer {
		all = append(all, loginSpecs(server, secrets)...)
	}
	for _, one := range e.tokens.gone {
		all = append(all, loginSpecs(one.server, []string{one.secret})...)
	}
	for name, secret := range e.tokens.entered {
		all = append(all, enteredSpec(name, secret))
	}
	e.tokens.stale = 0
	e.secrets.Store(e.tokens.base.With(all))
}

// learnMore adds what is new to what the scrubber knows, which has no further use for
// so many other secrets. A host with thousands of servers gets tokens all the time, and
// whoever gets one waits for this. e.tokens.mu is held.
func (e *Engine) learnMore(more []*messages.ServerSpec, stale int) {
	if e.tokens.stale += stale; e.tokens.stale > maxStale {
		e.learnLogins()
		return
	}
	e.secrets.Store(e.secrets.Load().With(more))
}

// loginSpecs are secrets of a login as the scrubber takes them.
func loginSpecs(server string, secrets []string) []*messages.ServerSpec {
	specs := make([]*messages.ServerSpec, len(secrets))
	for i, secret := range secrets {
		specs[i] = enteredSpec("oauth of "+server, secret)
	}
	return specs
}

// enteredSpec is a secret with a name as the scrubber takes it.
func enteredSpec(name, secret string) *messages.ServerSpec {
	return &messages.ServerSpec{Filled: map[string]string{"secret:" + name: secret}}
}
