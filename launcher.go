package metamcp

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/child"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/integration/oauth"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/remote"
	"github.com/metamcp/metamcp/integration/watchdog"
	"github.com/metamcp/metamcp/messages"
)

// launchers let the connections start child processes and reach servers behind
// URLs.
type launchers struct {
	local  *child.Launcher
	remote *remote.Launcher
	// verified are the trees of provisioned servers that were looked at, by their
	// folders: this host has seen that they are as they were installed.
	verified *sync.Map
	ending   context.Context // of the host: nobody waits for a look after it
	engine   *Engine
}

func (e *Engine) launcher(cfg *config.Config) (actors.Launcher, error) {
	opts := child.Options{Parse: parseFrame, Logs: e.logs, Log: e.log}
	if !e.opts.NoWatchdog {
		e.guard = watchdog.New(watchdog.Options{
			HostID: child.NewHostID(), StateDir: cfg.Settings.StateDir, Executable: e.opts.Watchdog,
			Report: func(err error) { e.log.Warn("protecting children from a killed host failed", "error", err) },
		})
		opts.Guard = e.guard
	}
	l, err := child.NewLauncher(opts)
	if err != nil {
		return nil, err
	}
	if e.loginDir == "" {
		e.loginDir = cfg.Settings.StateDir
	}
	e.logins = oauth.New(oauth.Options{StateDir: e.loginDir, Learned: e.learnTokens, Log: e.log})
	r, err := remote.NewLauncher(remote.Options{Parse: parseFrame, Log: e.log, Authorize: e.authorizer})
	if err != nil {
		return nil, err
	}
	e.remote = r
	return launchers{l, r, &sync.Map{}, e.reloads, e}, nil
}

// Launch implements actors.Launcher.
func (s launchers) Launch(spec *messages.ServerSpec, instance uint64, ear actors.Ear) (actors.Link, error) {
	if spec.Transport != messages.TransportStdio {
		if l := s.engine.http.Load(); l != nil && l.IsAt(spec.URL) {
			return nil, &Error{
				Code: messages.CodeConfiguration, Server: spec.Name, Message: fmt.Sprintf("the url of %q is that at which this host serves its own clients: it would be a server of its own", spec.Name),
				Hint: "Remove the entry, or correct its url. It stands at " + spec.Source + ".",
			}
		}
		k, err := s.remote.Launch(spec, ear)
		if err != nil {
			return nil, err
		}
		return remoteLink{k}, nil
	}
	if err := s.verify(spec); err != nil {
		return nil, err
	}
	if err := s.engine.Config().CheckStart(spec); err != nil {
		return nil, err
	}
	behind := *spec
	behind.Env = s.engine.chain().Behind(config.FileOf(spec), spec.Name).Into(spec.Env)
	p, err := s.local.Launch(&behind, instance, ear)
	if err != nil {
		return nil, err
	}
	return stdioLink{p}, nil
}

// chain is what stands before the entries of this host: the entries through which it was
// started, and those through which its clients were. Another host that is a client here,
// and has us as a client, would find no end otherwise.
func (e *Engine) chain() lineage.Chain {
	chain := e.Config().Chain
	e.clients.Range(func(_, value any) bool {
		if c := value.(client).chain; c.Depth > 0 {
			chain = chain.With(c)
		}
		return true
	})
	return chain
}

// verify holds the files of a provisioned server to the lock file before the
// first start in this host. It runs on the goroutine of a start, which may take
// its time.
func (s launchers) verify(spec *messages.ServerSpec) error {
	p := spec.Provisioned
	if p == nil || p.Dir == "" {
		return nil
	}
	if tree, ok := s.verified.Load(p.Dir); ok && tree == p.Tree {
		return nil
	}
	err := provisioned.Verify(s.ending, spec.Name, p.Dir, p.Tree)
	switch {
	case s.ending.Err() != nil:
		return s.ending.Err()
	case err != nil:
		return &Error{
			Code: messages.CodeConfiguration, Server: spec.Name, Message: err.Error(), Cause: err,
			Hint: "Remove it (metamcp remove " + messages.ShellWord(spec.Name) + ", which keeps its files for a while) and provision it again, unless you know who changed it.",
		}
	}
	s.verified.Store(p.Dir, p.Tree)
	return nil
}

// stdioLink is a child process as a connection sees it.
type stdioLink struct{ *child.Process }

// Send implements actors.Link.
func (l stdioLink) Send(line []byte) error { return linkError(l.Process.Send(line)) }

// Sendv implements actors.Link.
func (l stdioLink) Sendv(head, body, tail []byte) error {
	return linkError(l.Process.Sendv(head, body, tail))
}

// remoteLink is a server behind a URL as a connection sees it.
type remoteLink struct{ *remote.Link }

// Send implements actors.Link.
func (l remoteLink) Send(line []byte) error { return linkError(l.Link.Send(line)) }

// Sendv implements actors.Link.
func (l remoteLink) Sendv(head, body, tail []byte) error {
	return linkError(l.Link.Sendv(head, body, tail))
}

// Cork implements actors.Link: each message is a request of its own anyway.
func (remoteLink) Cork(*messages.Burst) {}

func linkError(err error) error {
	if errors.Is(err, child.ErrBacklog) || errors.Is(err, remote.ErrBacklog) {
		return actors.ErrBacklog
	}
	return err
}

// askedLater are the names of messages.Members, in their order.
var askedLater = jsonrpc.Names{"uri", "taskId", "requestState", "isError"}

// parseFrame takes a child's line apart.
func parseFrame(line []byte, f *messages.Frame) error {
	m, has, err := jsonrpc.ParseNaming(line, &askedLater)
	if err != nil {
		return err
	}
	f.ID, f.Method, f.Params, f.Result, f.Error = m.ID, m.Method, m.Params, m.Result, m.Error
	f.Has = messages.MembersRead | messages.Members(has)*messages.MemberURI
	return nil
}
