package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

// hostPlace is where the shared host of a configuration is looked for. It is known
// without what the configuration says, which may be broken or gone by now.
type hostPlace struct {
	stateDir string
	files    []string
	// candidates are the files that would count if they were there, where none was
	// named and there is none.
	candidates []string
	drain      time.Duration
	end        time.Duration // after that
}

// hostPlace is where this command's host is.
func (c *common) hostPlace() (*hostPlace, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		rest, wrong := c.withoutFiles()
		if wrong != nil {
			return nil, err // flags or variables are wrong
		}
		cfg = rest
		c.goOnWithout(err, fmt.Sprintf("looking for its host in %s all the same", cfg.Settings.StateDir))
	}
	if cfg.Settings.StateDir == "" {
		return nil, errNoStateDir
	}
	p := hostOf(cfg)
	p.files, p.candidates = config.FilesOf(c.sources())
	return p, nil
}

var errNoStateDir = errors.New("a host needs a state folder, and none is known; name one with --state-dir")

// hostConfig is the configuration that names the host.
func (c *common) hostConfig() (*config.Config, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil, err
	}
	if cfg.Settings.StateDir == "" {
		return nil, errNoStateDir
	}
	return cfg, nil
}

func hostOf(cfg *config.Config) *hostPlace {
	return &hostPlace{stateDir: cfg.Settings.StateDir, files: cfg.Files, drain: cfg.Settings.DrainTimeout, end: endTime(metamcp.EndTime(cfg))}
}

// announced are the hosts that say that they are of this place.
func (p *hostPlace) announced() (found []control.HostInfo) {
	for _, files := range p.ways() {
		found = append(found, attach.Find(p.stateDir, files)...)
	}
	return found
}

// ways are the configurations that a host of this place may be of.
func (p *hostPlace) ways() [][]string {
	ways := [][]string{p.files}
	for _, c := range p.candidates {
		if _, err := os.Stat(c); len(p.files) == 0 && errors.Is(err, fs.ErrNotExist) {
			ways = append(ways, []string{c})
		}
	}
	return ways
}

// living is the host that runs; nil: none does. Where one is about to take another's
// place, it is waited for. The error is of one that is there and does not answer, or that
// cannot be asked.
func (p *hostPlace) living(ctx context.Context) (*control.HostInfo, error) {
	for {
		coming := p.coming()
		var failed error
		for _, info := range p.announced() {
			switch there, err := attach.Answers(ctx, info); {
			case err != nil:
				failed = err
			case there:
				return &info, nil
			}
		}
		if failed != nil || !coming {
			return nil, failed
		}
		select {
		case <-time.After(startLook):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// coming tells whether a host is about to take the place. It is believed for some
// time only.
func (p *hostPlace) coming() bool {
	return slices.ContainsFunc(p.ways(), func(files []string) bool { return attach.Coming(p.stateDir, files) })
}

// none says that no host runs here, and which do in the same folder.
func (p *hostPlace) none(more string) error {
	files := p.files
	if len(files) == 0 {
		files = p.candidates
	}
	text := "no host runs for this configuration (" + oneLine(strings.Join(files, ", ")) + ") with the state folder " + oneLine(p.stateDir) + more
	hint := "Start one with `metamcp host start`."
	hosts, err := control.Hosts(p.stateDir)
	if err != nil {
		text += "; " + oneLine(err.Error())
	}
	if len(hosts) > 0 {
		const most = 10
		var others []string
		for i, h := range hosts {
			if i == most {
				others = append(others, fmt.Sprintf("and %d more", len(hosts)-most))
				break
			}
			kind := "of one client"
			if h.Shared {
				kind = "shared"
			}
			others = append(others, fmt.Sprintf("%s (pid %d, %s, configuration %s)", oneLine(h.Name), h.PID, kind, oneLine(strings.Join(h.Configs, ", "))))
		}
		text += "; there run: " + strings.Join(others, "; ")
		hint = "Name its configuration with --config, or start one for this one with `metamcp host start`."
	}
	return &metamcp.Error{Code: messages.CodeHostAway, Message: text, Hint: hint}
}
