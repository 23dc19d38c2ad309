package metamcp

import (
	"errors"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/child"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/integration/remote"
	"github.com/metamcp/metamcp/integration/watchdog"
	"github.com/metamcp/metamcp/messages"
)

// launchers let the connections start child processes and reach servers behind
// URLs.
type launchers struct {
	local  *child.Launcher
	remote *remote.Launcher
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
	r, err := remote.NewLauncher(remote.Options{Parse: parseFrame, Log: e.log})
	if err != nil {
		return nil, err
	}
	e.remote = r
	return launchers{l, r}, nil
}

// Launch implements actors.Launcher.
func (s launchers) Launch(spec *messages.ServerSpec, instance uint64, ear actors.Ear) (actors.Link, error) {
	if spec.Transport != messages.TransportStdio {
		k, err := s.remote.Launch(spec, ear)
		if err != nil {
			return nil, err
		}
		return remoteLink{k}, nil
	}
	p, err := s.local.Launch(spec, instance, ear)
	if err != nil {
		return nil, err
	}
	return stdioLink{p}, nil
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

func linkError(err error) error {
	if errors.Is(err, child.ErrBacklog) || errors.Is(err, remote.ErrBacklog) {
		return actors.ErrBacklog
	}
	return err
}

// parseFrame takes a child's line apart.
func parseFrame(line []byte, f *messages.Frame) error {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		return err
	}
	f.ID, f.Method, f.Params, f.Result, f.Error = m.ID, m.Method, m.Params, m.Result, m.Error
	return nil
}
