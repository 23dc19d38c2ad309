package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/watchdog"
	"github.com/metamcp/metamcp/messages"
)

const (
	// maxHosts bounds how many hosts are asked.
	maxHosts = 50
	// hostPatience is how long one of them may take to answer.
	hostPatience = 3 * time.Second
	maxHostFile  = 1 << 20
)

func (p *Patient) hostChecks() []Check {
	dir := p.Config.Settings.StateDir
	if dir == "" {
		return nil
	}
	return []Check{
		{ID: "hosts.running", Group: GroupHosts, Run: func(ctx context.Context) []Result { return p.hosts(ctx, dir) }},
		{ID: "server.limits", Group: GroupServers, Run: func(context.Context) []Result { return p.limits(dir) }},
		{ID: "hosts.leftovers", Group: GroupHosts, Run: func(ctx context.Context) []Result { return []Result{p.leftovers(ctx, dir)} }},
	}
}

// announced is what hosts have left in their folder.
type announced struct {
	hosts   []control.HostInfo
	orphans []string // sockets without a host's file
}

// readHosts reads the folder of hosts and changes nothing in it, while
// control.Hosts removes what is dead.
func readHosts(stateDir string) (announced, error) {
	var a announced
	dir := filepath.Join(stateDir, "hosts")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if stem, ok := strings.CutSuffix(path, ".sock"); ok {
			if _, err := os.Lstat(stem + ".json"); errors.Is(err, fs.ErrNotExist) {
				a.orphans = append(a.orphans, path)
			}
		}
		if !strings.HasSuffix(path, ".json") || len(a.hosts) == maxHosts {
			continue
		}
		text, err := readBounded(path, maxHostFile)
		if err != nil {
			continue // it has just ended
		}
		var h control.HostInfo
		if json.Unmarshal(text, &h) == nil && h.Name != "" && h.Socket != "" {
			a.hosts = append(a.hosts, h)
		}
	}
	return a, nil
}

// hosts lists the hosts that run and the sockets that dead ones left.
func (p *Patient) hosts(ctx context.Context, dir string) []Result {
	found, err := readHosts(dir)
	if err != nil {
		return []Result{{Status: Fail, Found: fmt.Sprintf("the hosts cannot be listed: %v", err), Why: "metamcp status and ps do not work.", Fix: "chmod 700 " + messages.ShellWord(filepath.Join(dir, "hosts"))}}
	}
	type outcome struct {
		result Result
		stale  bool
	}
	outcomes := make([]outcome, len(found.hosts))
	done := make(chan struct{})
	for i, h := range found.hosts {
		go func() {
			outcomes[i].result, outcomes[i].stale = p.host(ctx, h)
			done <- struct{}{}
		}()
	}
	for range found.hosts {
		<-done
	}
	var results []Result
	var stale []string
	for i, o := range outcomes {
		if o.stale {
			stale = append(stale, found.hosts[i].Socket)
		} else {
			results = append(results, o.result)
		}
	}
	for _, socket := range found.orphans {
		switch c, err := control.Dial(control.HostInfo{Name: filepath.Base(socket), Socket: socket}); {
		case err == nil:
			c.Close() // a host that is about to announce itself
		case nobodyListens(err):
			stale = append(stale, socket)
		}
	}
	if len(results) == 0 {
		results = append(results, Result{Status: OK, Found: "no host runs with this state folder"})
	}
	return append(results, p.stale(dir, stale))
}

// host asks one host how it does; stale: nobody listens on its socket.
func (p *Patient) host(parent context.Context, h control.HostInfo) (r Result, stale bool) {
	ctx, cancel := context.WithTimeout(parent, hostPatience)
	defer cancel()
	r = Result{Subject: h.Name, Status: OK}
	c, err := control.Dial(h)
	if nobodyListens(err) {
		return r, true
	}
	if err == nil {
		defer c.Close()
		_, err = c.Status(ctx, false)
	}
	if err != nil {
		r.Status, r.Found = Warn, fmt.Sprintf("pid %d, metamcp %s, does not answer: %v", h.PID, h.Version, err)
		r.Why, r.Fix = "It may be stopped, overloaded, or hang.", fmt.Sprintf("metamcp status %d   tries again; kill -9 %d   ends it, and its children with it.", h.PID, h.PID)
		if h.Shared {
			r.Fix = fmt.Sprintf("metamcp status %d   tries again; metamcp host stop --force   ends it, and its children with it.", h.PID)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			r.Found = fmt.Sprintf("pid %d, metamcp %s, does not answer within %v", h.PID, h.Version, hostPatience)
		}
		return r, false
	}
	r.Found = fmt.Sprintf("pid %d, metamcp %s, up %s", h.PID, h.Version, time.Since(h.Started).Round(time.Second))
	if h.Version != p.Version {
		r.ID, r.Status = "hosts.version", Warn
		r.Why = fmt.Sprintf("This program is metamcp %s. Both share one state folder; what was corrected since is not in force there.", p.Version)
		r.Fix = "Restart the client that started it, so that it takes the present program."
		if h.Shared {
			r.Fix = "metamcp host restart   , so that it takes the present program."
		}
	}
	return r, false
}

// limits says where only a host that was given a control group starts a server, which
// a trial of the start does not show.
func (p *Patient) limits(dir string) (results []Result) {
	var given bool
	for _, h := range attach.Find(dir, p.Config.Files) {
		given = given || h.Manager == "systemd"
	}
	for _, spec := range p.servers() {
		if spec.Limits.Processes == 0 || given {
			continue
		}
		results = append(results, Result{
			Subject: spec.Name, Status: Warn, Found: "its limits.processes can be kept only by a host that was given a control group, and none runs that systemd keeps",
			Why: "Every other host refuses to start it; a trial of its start leaves that limit out.",
			Fix: fmt.Sprintf("metamcp host install, on Linux with systemd; or take \"processes\" out of \"limits\" at %s.", spec.Source),
		})
	}
	return results
}

// stale reports sockets on which nobody listens.
func (p *Patient) stale(dir string, sockets []string) Result {
	r := Result{ID: "hosts.stale", Status: OK, Found: "no socket of a dead host was left"}
	if len(sockets) == 0 {
		return r
	}
	slices.Sort(sockets)
	r.Details = sockets
	if p.Fix {
		_, err := control.Hosts(dir) // removes them under the lock of the folder
		left := slices.DeleteFunc(slices.Clone(sockets), func(s string) bool {
			_, statErr := os.Lstat(s)
			return errors.Is(statErr, fs.ErrNotExist)
		})
		if err == nil && len(left) == 0 {
			r.Fixed, r.Found = true, fmt.Sprintf("%s of dead hosts removed", count(len(sockets), "socket"))
			return r
		}
	}
	r.Status, r.Found = Warn, fmt.Sprintf("%s of dead hosts left", count(len(sockets), "socket"))
	r.Why = "A host was killed. It does no harm: the next command that lists hosts removes them."
	r.Fix = "metamcp ps   (or: metamcp doctor --fix)"
	return r
}

// leftovers looks for processes that hosts left which were killed together
// with their watchdogs.
func (p *Patient) leftovers(ctx context.Context, dir string) Result {
	left, err := readLeftovers(ctx, filepath.Join(dir, "run"))
	if err != nil {
		return Result{Status: Fail, Found: fmt.Sprintf("the journals of children cannot be read: %v", err), Why: "Processes that a killed host left are not found.", Fix: "chmod 700 " + messages.ShellWord(filepath.Join(dir, "run"))}
	}
	if len(left) == 0 {
		return Result{Status: OK, Found: "no process of a dead host was left running"}
	}
	r := Result{}
	for _, l := range left {
		r.Details = append(r.Details, fmt.Sprintf("pid %d, started by the host that had pid %d", l.pid, l.host))
	}
	if p.Fix {
		ended, err := watchdog.EndLeftovers(dir)
		if err == nil {
			r.Status, r.Fixed, r.Found = OK, true, fmt.Sprintf("%s of dead hosts ended", count(len(ended), "process"))
			return r
		}
		r.Details = append(r.Details, err.Error())
	}
	r.Status, r.Found = Warn, fmt.Sprintf("%s of dead hosts run on", count(len(left), "process"))
	r.Why = "A host was killed together with its watchdog. They take memory, and may hold files and ports that the next start needs."
	r.Fix = "metamcp doctor --fix   ends them; so does the next start of a host."
	return r
}
