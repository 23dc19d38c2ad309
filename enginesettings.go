package metamcp

import (
	"errors"
	"runtime"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// report logs what is wrong with a configuration, whose secrets are known. Of a broken
// entry a single command says in its answer what it is.
func (e *Engine) report(cfg *config.Config) {
	for _, p := range cfg.Problems {
		if spec := cfg.Server(p.Server); e.opts.Brief && spec != nil && spec.Err != nil {
			continue
		}
		p = e.shown(p)
		e.log.Error(p.Message, attributes(p)...)
	}
	for _, w := range cfg.Warnings {
		w = e.shown(w)
		e.log.Warn(w.Message, attributes(w)...)
	}
}

// shown is a problem without secrets: it quotes names and values, and somebody may have
// written a secret in the place of either.
func (e *Engine) shown(p config.Problem) config.Problem {
	secrets := e.secrets.Load()
	p.Message, p.Server, p.Hint = secrets.Text(p.Message), secrets.Text(p.Server), secrets.Text(p.Hint)
	return p
}

// attributes are what is known beside a problem's message.
func attributes(p config.Problem) []any {
	var out []any
	for _, a := range [][2]string{{"at", p.Position()}, {"server", p.Server}, {"hint", p.Hint}} {
		if a[1] != "" {
			out = append(out, a[0], a[1])
		}
	}
	return out
}

func poolSettings(p config.PoolSettings) supervision.PoolSettings {
	return supervision.PoolSettings{
		Pool: supervision.PoolConfig{
			Size: p.PoolSize, Reserve: p.ResPoolSize, ReserveAfter: p.ResPoolTimeout, Min: p.MinPoolSize,
			IdleTimeout: p.IdleTimeout, AcquireTimeout: p.AcquireTimeout, MaxWaiters: p.MaxWaiters,
		},
		FailureThreshold: p.FailureThreshold, Cooldown: p.Cooldown, SessionCalls: p.SessionCalls,
		Flaps: p.FlapRestarts, FlapWindow: p.FlapWindow,
	}
}

// maxStarts is how many children are started at the same moment: starting is CPU,
// and more at once only makes all of them late.
func maxStarts(p config.PoolSettings) int {
	const least = 4
	if p.MaxStarts > 0 {
		return p.MaxStarts
	}
	return max(least, 2*runtime.NumCPU())
}

// toolRules compiles the rules. One that is broken refuses the configuration as
// a whole, since leaving it out could open a tool that somebody closed.
func toolRules(cfg *config.Config) (*index.Rules, error) {
	rules := make([]index.Rule, 0, len(cfg.Settings.ToolRules))
	for _, r := range cfg.Settings.ToolRules {
		rules = append(rules, index.Rule{Patterns: r.Pattern, Server: r.Server, Enabled: r.Enabled, Tags: r.Tags})
	}
	compiled, err := index.CompileRules(rules)
	if err != nil {
		at := ""
		if wrong := (*index.RuleError)(nil); errors.As(err, &wrong) {
			at = cfg.RuleAt(wrong.Rule) + ": "
		}
		return nil, &Error{
			Code: messages.CodeConfiguration, Message: at + "metamcp.toolRules: " + err.Error(), Cause: err,
			Hint: "Patterns are globs (*, ?, [a-z]), /regular expressions/ with flags i, s, m (RE2: no look-ahead), or either behind a !.",
		}
	}
	return compiled, nil
}
