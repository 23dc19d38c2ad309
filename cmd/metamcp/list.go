package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// hostPatience is how long list waits for running hosts: it says what is
// configured also where they do not answer.
const hostPatience = 3 * time.Second

// What list says of a server that no host runs.
const (
	stateBroken     = "broken"
	stateDisabled   = "disabled"
	stateConfigured = "configured"
)

// listedServer is one server for scripts.
type listedServer struct {
	Name        string   `json:"name"`
	Source      string   `json:"source"` // file and line of its entry
	State       string   `json:"state"`  // broken, disabled, configured, or that of the first host that has it
	Command     string   `json:"command,omitempty"`
	URL         string   `json:"url,omitempty"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Problems    []string `json:"problems,omitempty"`
	// Missing says why it cannot be started here, where its command or its working
	// folder is missing; "": it can, as far as files tell, or that was not looked for,
	// as where a host runs the server.
	Missing string         `json:"missing,omitempty"`
	Hosts   []serverInHost `json:"hosts,omitempty"`
	// Provisioned says how it came here; nil of a server that somebody wrote into
	// the configuration.
	Provisioned *provisionedFrom `json:"provisioned,omitempty"`

	word string // what people read instead of configured where Missing is not empty
}

// provisionedFrom says where a provisioned server is from.
type provisionedFrom struct {
	Kind        string    `json:"kind"`
	Package     string    `json:"package"`
	Version     string    `json:"version,omitempty"`
	InstalledAt time.Time `json:"installedAt"`
	AllowedBy   string    `json:"allowedBy"`
}

// serverInHost is how a running host has it.
type serverInHost struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	State   string `json:"state"`
	Breaker string `json:"breaker"`
	Tools   *int   `json:"tools,omitempty"` // nil: they were not listed yet
	Error   string `json:"error,omitempty"`

	word string // its state for people
}

// listReport is the answer for scripts.
type listReport struct {
	Files   []string       `json:"files"`
	Servers []listedServer `json:"servers"`
	Notes   []string       `json:"notes,omitempty"`
}

func newList(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the servers of the configuration", Args: args(noArgs),
		Long: `List the servers of the configuration: whether they are turned off or broken,
where their entry is and what it starts. Nothing is started. Where hosts run with
the same state folder, the state that they have a server in is shown.

STATE is broken, disabled, configured, no command where what it starts is not
here, or no folder where its working folder (cwd) is not; or that of a running
host, as metamcp status shows it: not started, idle, connecting, active, failed
or closed. With --json no command and no folder are configured with "missing".

Exit status: 0, also where servers are broken; 1 the configuration cannot be
read.`,
		Example: `  metamcp list
  metamcp list --json
  metamcp list --config ~/project/.mcp.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(c.sources())
			if err != nil {
				return err
			}
			r := listServers(cmd.Context(), cfg)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			for _, n := range r.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", printable(n))
			}
			return printServers(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listServers says what is configured, and what running hosts have of it.
func listServers(ctx context.Context, cfg *config.Config) listReport {
	r := listReport{Files: append([]string{}, cfg.Files...), Servers: []listedServer{}}
	secrets := scrub.New(cfg.Servers)
	problems := map[string][]string{}
	for _, p := range append(cfg.Problems[:len(cfg.Problems):len(cfg.Problems)], cfg.Warnings...) {
		if text := secrets.Text(p.String()); p.Server == "" {
			r.Notes = append(r.Notes, text)
		} else {
			problems[p.Server] = append(problems[p.Server], secrets.Text(problemOf(p)))
		}
	}
	locked, _ := provisioned.Open(cfg.Settings.StateDir).List() // a broken file is one of the problems
	hosts, notes := hostStates(ctx, cfg.Settings.StateDir)
	r.Notes = append(r.Notes, notes...)
	for _, spec := range cfg.Servers {
		s := listedServer{
			Name: spec.Name, Source: spec.Source, State: stateConfigured, Description: spec.Description, Tags: spec.Tags,
			Problems: problems[spec.Name], URL: secrets.Text(spec.URL),
		}
		for i := range locked {
			if l := &locked[i]; l.Name == spec.Name && spec.Provisioned != nil {
				s.Provisioned = &provisionedFrom{l.Source.Kind, l.Source.Package, l.Source.Version, l.InstalledAt, l.AllowedBy}
			}
		}
		if spec.Command != "" {
			words := make([]string, 0, 1+len(spec.Args))
			for _, w := range append([]string{spec.Command}, spec.Args...) {
				words = append(words, messages.ShellWord(secrets.Text(w)))
			}
			s.Command = strings.Join(words, " ")
		}
		for _, h := range hosts {
			for i := range h.Servers {
				if h.Servers[i].Name == spec.Name {
					s.Hosts = append(s.Hosts, inHost(h, &h.Servers[i]))
				}
			}
		}
		switch {
		case spec.Disabled: // whatever else is wrong with it, nobody starts it
			s.State = stateDisabled
		case spec.Err != nil:
			s.State = stateBroken
		case len(s.Hosts) > 0:
			s.State = s.Hosts[0].State
		case spec.Transport == messages.TransportStdio:
			what, why := doctor.Missing(spec)
			s.word, s.Missing = what, secrets.Text(why)
		}
		r.Servers = append(r.Servers, s)
	}
	return r
}

// problemOf is a problem without the server and the file, which stand beside it.
func problemOf(p config.Problem) string {
	if p.Hint == "" {
		return p.Message
	}
	return p.Message + " (" + p.Hint + ")"
}

func inHost(h *messages.HostStatus, s *messages.HostServer) serverInHost {
	in := serverInHost{Host: h.Name, PID: h.PID, State: s.State, Breaker: s.Breaker, word: hostState(s)}
	if s.Known {
		in.Tools = &s.Tools
	}
	if s.Error != nil {
		in.Error = s.Error.Message // the host has scrubbed it
	}
	return in
}

// hostStates asks the hosts that run with a state folder, all at once. What
// cannot be asked is a note.
func hostStates(parent context.Context, stateDir string) (states []*messages.HostStatus, notes []string) {
	if stateDir == "" {
		return nil, nil
	}
	hosts, err := control.Hosts(stateDir)
	if err != nil {
		return nil, []string{err.Error()}
	}
	ctx, cancel := context.WithTimeout(parent, hostPatience)
	defer cancel()
	answers := make([]*messages.HostStatus, len(hosts))
	failed := make([]error, len(hosts))
	var asked sync.WaitGroup
	for i, h := range hosts {
		asked.Go(func() { answers[i], failed[i] = askHost(ctx, h) })
	}
	asked.Wait()
	for i, h := range hosts {
		if failed[i] != nil {
			notes = append(notes, fmt.Sprintf("the host %s (pid %d) did not say what it has: %v", h.Name, h.PID, failed[i]))
		} else {
			states = append(states, answers[i])
		}
	}
	return states, notes
}

func printServers(out io.Writer, r listReport) error {
	if len(r.Servers) == 0 {
		_, err := fmt.Fprintln(out, "No server is configured. metamcp add --list shows well-known ones; metamcp import takes those of your clients.")
		return err
	}
	t := table{width: terminalWidth(out)}
	t.row("NAME", "STATE", "SOURCE", "WHAT")
	for _, s := range r.Servers {
		what := s.Command
		if what == "" {
			what = s.URL
		}
		switch {
		case len(s.Problems) > 0:
			what = strings.Join(s.Problems, "; ")
		case len(s.Hosts) > 0 && s.Hosts[0].Error != "":
			what = s.Hosts[0].Error
		case s.Missing != "":
			what = s.Missing
		}
		source := s.Source
		if p := s.Provisioned; p != nil {
			source = strings.TrimSpace("provisioned " + p.Kind + ":" + p.Package + " " + p.Version)
		}
		state := s.State
		if state != stateBroken && state != stateDisabled && len(s.Hosts) > 0 {
			state = s.Hosts[0].word
		} else if s.Missing != "" {
			state = s.word
		}
		t.row(printable(s.Name), state, printable(source), printable(what))
	}
	return t.print(out)
}
