package actors

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// shut has a rule close a tool of all servers, in one go with what else changes.
func (r *rig) shut(tool string, changed ...*messages.ServerSpec) {
	r.t.Helper()
	rules, err := index.CompileRules([]index.Rule{{Patterns: []string{tool}, Enabled: new(bool)}})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range changed {
		r.specs[s.Name] = s
	}
	r.apply(Change{NewRules: true, Rules: rules, Changed: changed})
}

// secondStart has a call wait for the second start of a child, and those after it.
func secondStart() (s *script, waiting func(r *rig) (p *pendingCall, letGo func())) {
	release := make(chan struct{})
	s = &script{launch: func(n int) error {
		if n > 1 {
			<-release
		}
		return nil
	}}
	return s, func(r *rig) (*pendingCall, func()) {
		r.f.living("a")[0].crash()
		r.settled(0)
		p := r.start("a", "read", doArgs{})
		r.f.eventually(r.t, "it waits for a start", func() bool { return r.f.started("a") == 2 })
		return p, func() { close(release) }
	}
}

// TestClosedWhileItWaited: a rule that closes a tool, or an entry that is disabled, holds
// for calls that no child has yet, whatever they wait for.
func TestClosedWhileItWaited(t *testing.T) {
	shut := func(r *rig) { r.shut("read") }
	oneStart, forOneStart := secondStart()
	another, forAnother := secondStart()
	for name, tt := range map[string]struct {
		pool    func(s *supervision.PoolSettings)
		script  *script
		change  func(s *messages.ServerSpec)
		waiting func(r *rig) (p *pendingCall, letGo func())
		closes  func(r *rig)
		want    messages.Code
		says    string
	}{
		"for a place": {pool: places(1), closes: shut, want: messages.CodeToolDisabled, says: "by a tool rule", waiting: func(r *rig) (*pendingCall, func()) {
			busy := r.start("other", "do", doArgs{Do: "silent"})
			r.got("other", methodToolsCall, 1)
			p := r.start("a", "read", doArgs{})
			r.f.eventually(r.t, "it waits for a place", func() bool { return r.stats().Waiting == 1 })
			return p, func() { r.e.Cancel(busy.call, "enough") }
		}},
		"for a start": {script: oneStart, waiting: forOneStart, closes: shut, want: messages.CodeToolDisabled, says: "by a tool rule"},
		"for the start of an entry that changed": {script: another, waiting: forAnother, closes: func(r *rig) {
			r.shut("read", spec("a", newHash))
		}, want: messages.CodeToolDisabled, says: "by a tool rule"},
		"behind others, of a tool that is no longer listed": {
			script: &script{pages: []string{usualTools, `{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}`}}, change: oneAtATime, waiting: behindAnother,
			closes: func(r *rig) {
				r.f.living("a")[0].say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				r.f.eventually(r.t, "it is no longer listed", func() bool { return r.e.view.Load().Server("a").Tool("read") == nil })
				r.shut("read")
			}, want: messages.CodeToolDisabled, says: "by a tool rule",
		},
		"behind others": {change: oneAtATime, closes: shut, want: messages.CodeToolDisabled, says: "by a tool rule", waiting: behindAnother},
		"for a second try": {closes: shut, want: messages.CodeToolDisabled, says: "the connection was lost during the call", waiting: func(r *rig) (*pendingCall, func()) {
			p := r.start("a", "read", doArgs{Do: "silent"})
			r.got("a", methodToolsCall, 2)
			return p, r.f.living("a")[0].crash
		}},
		"at a server that is disabled": {change: oneAtATime, closes: func(r *rig) {
			r.change("a", func(s *messages.ServerSpec) { s.Disabled = true })
		}, want: messages.CodeConfiguration, says: "is disabled in the configuration", waiting: behindAnother},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.pool)
			r.add("a", tt.script, tt.change)
			r.add("other", nil, nil)
			r.ok("a") // its tools are known
			p, letGo := tt.waiting(r)
			before := len(r.f.lines("a", methodToolsCall))
			tt.closes(r)
			letGo()
			if err := r.wantCode(r.wait(p), tt.want); !strings.Contains(err.Message, tt.says) {
				t.Errorf("%v", err)
			}
			if after := len(r.f.lines("a", methodToolsCall)); after != before {
				t.Error("it was carried out")
			}
		})
	}
}

func oneAtATime(s *messages.ServerSpec) { s.MaxInFlight = 1 }

// behindAnother has a call wait until a child that is given one at a time has answered.
func behindAnother(r *rig) (*pendingCall, func()) {
	busy := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	p := r.start("a", "read", doArgs{})
	r.f.eventually(r.t, "it waits for its turn", func() bool { return r.held("a") == 2 })
	return p, func() { r.e.Cancel(busy.call, "enough") }
}

// TestOpenWhileOthersWereClosed: what waits is carried out though the catalog has changed
// meanwhile.
func TestOpenWhileOthersWereClosed(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, oneAtATime)
	r.ok("a")
	p, letGo := behindAnother(r)
	r.shut("do")
	letGo()
	r.wantResult(r.wait(p))
}

// TestDisabledForEveryRequest: what is no call of a tool and waits for its turn at a server
// that is then disabled is not carried out either.
func TestDisabledForEveryRequest(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, oneAtATime)
	r.ok("a")
	busy := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", methodToolsCall, 2)
	asked := newPort()
	r.ports = append(r.ports, asked)
	p := &pendingCall{asked, &messages.Call{ID: lastCall.Add(1), Server: "a", Method: "prompts/list", Cancelled: &atomic.Bool{}, Reply: asked}}
	r.e.Ask(p.call)
	r.f.eventually(t, "it waits for its turn", func() bool { return r.held("a") == 2 })
	r.change("a", func(s *messages.ServerSpec) { s.Disabled = true })
	r.e.Cancel(busy.call, "enough")
	r.wantCode(r.wait(p), messages.CodeConfiguration)
	if lines := r.f.lines("a", "prompts/list"); len(lines) > 0 {
		t.Errorf("it was carried out: %v", lines)
	}
}
