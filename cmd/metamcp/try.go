package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// triedServer is one start for scripts.
type triedServer struct {
	Server        string         `json:"server"`
	OK            bool           `json:"ok"`
	TookMs        int64          `json:"tookMs"`
	Protocol      string         `json:"protocol,omitempty"`
	ServerName    string         `json:"serverName,omitempty"`
	ServerVersion string         `json:"serverVersion,omitempty"`
	Tools         []triedTool    `json:"tools,omitempty"`
	Notes         []string       `json:"notes,omitempty"`
	Error         *metamcp.Error `json:"error,omitempty"` // its details hold the end of stderr
}

type triedTool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

func newTest(c *common) *cobra.Command {
	f := doctorFlags{}
	cmd := &cobra.Command{
		Use: "test NAME…", Short: "Start servers once, list their tools and end them",
		Long: `Start servers of the configuration, shake hands with them, list their tools and
end them again: what a client would get. One that is turned off is started too.
Nothing is kept, and running hosts are not disturbed. Of a server that fails the
end of its standard error is shown.

Exit status: 0 all of them listed their tools, 1 one did not, 2 wrong usage, or
there is no such server, 130 interrupted.`,
		Example: `  metamcp test github
  metamcp test github slack --timeout 2m --json`,
		Args: args(func(_ *cobra.Command, given []string) error {
			if len(given) == 0 {
				return errors.New("test needs the name of a server; metamcp list shows them, and metamcp doctor tries all")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, given []string) error {
			f.servers = given
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return runTest(ctx, cmd, c, &f)
		},
	}
	cmd.Flags().Var((*patience)(&f.timeout), "timeout", "how long a start may take: 30s, 2m, or milliseconds (default: a minute; what npx or the like downloads, its startupTimeoutMs)")
	cmd.Flags().BoolVar(&f.raw, "json", false, "print JSON")
	return cmd
}

func runTest(ctx context.Context, cmd *cobra.Command, c *common, f *doctorFlags) error {
	p, err := c.patient(f)
	if err != nil {
		return err
	}
	if p.LoadError != nil {
		return p.LoadError
	}
	secrets := scrub.New(p.Config.Servers)
	trial := *p.Config
	trial.Servers = nil
	tried := map[string]*triedServer{}
	for _, name := range f.servers {
		spec := p.Config.Server(name)
		if spec == nil && p.Config.LeftOut(name) == nil {
			return usageError{fmt.Errorf("there is no server %q in the configuration; it has: %s", name, serverNames(p.Config))}
		}
		if tried[name] != nil {
			continue // named twice
		}
		tried[name] = &triedServer{Server: name}
		if spec == nil {
			tried[name].Error = secrets.Error(p.Config.LeftOut(name))
			continue
		}
		if own := untestable(p, spec); own != nil {
			tried[name].Error = secrets.Error(own)
			continue
		}
		on := *spec
		if on.Disabled {
			on.Disabled = false
			tried[name].Notes = append(tried[name].Notes, "it is turned off at "+spec.Source+", and was started for this test only; it can be turned on "+spec.TurnOn())
		}
		if on.Limits.Processes > 0 {
			tried[name].Notes = append(tried[name].Notes, "limits.processes was not in force: only a host that was given a control group keeps it, and no other starts the server (docs/ISOLATION.md)")
		}
		trial.Servers = append(trial.Servers, &on)
	}
	var starts []doctor.Start
	waiting := waitingFor(first(namesOf(&trial)))
	if f.raw {
		waiting = func() string { return "" }
	}
	err = whileWaiting(os.Stderr, isTerminal(os.Stderr), waiting, sayWaiting, func(io.Writer) (err error) {
		starts, err = metamcp.TryServers(ctx, &trial, metamcp.StartOptions{Timeout: f.timeout, Version: buildVersion()})
		return err
	})
	if ctx.Err() != nil {
		fmt.Fprintln(c.stderr, "metamcp: interrupted; all servers were ended")
		return statusError(exitInterrupted)
	}
	shown := withoutSecrets(p.Config)
	for i := range starts {
		tried[starts[i].Spec.Name].fill(&starts[i], secrets, shown)
	}
	list := []*triedServer{}
	failed := err != nil
	for _, name := range f.servers {
		if t := tried[name]; t != nil {
			list = append(list, t)
			failed = failed || !t.OK
			delete(tried, name)
		}
	}
	if f.raw {
		err = errors.Join(err, printJSON(cmd.OutOrStdout(), list))
	} else {
		err = errors.Join(err, printTried(cmd, cmd.OutOrStdout(), list))
	}
	if err == nil && failed {
		err = statusError(exitFailed)
	}
	return err
}

func namesOf(cfg *config.Config) []string {
	names := make([]string, len(cfg.Servers))
	for i, s := range cfg.Servers {
		names[i] = s.Name
	}
	if len(names) > 1 {
		return nil // no single one is waited for
	}
	return names
}

// untestable says why a server cannot be started; nil: it can.
func untestable(p *doctor.Patient, spec *messages.ServerSpec) *metamcp.Error {
	switch {
	case spec.Err != nil:
		return spec.Err
	case !p.MayStart(spec.Name):
		return &metamcp.Error{
			Code: messages.CodeConfiguration, Server: spec.Name, Message: fmt.Sprintf("%q is metamcp with the same configuration and would start itself", spec.Name),
			Hint: "Give it a configuration of its own with --config in its args, or remove it: metamcp remove " + messages.ShellWord(spec.Name),
		}
	}
	return nil
}

// withoutSecrets makes of what servers say of themselves and their tools what is shown.
func withoutSecrets(cfg *config.Config) func(text string) string {
	if !cfg.Settings.Scrub {
		return func(text string) string { return text }
	}
	secrets := scrub.New(cfg.Servers)
	return func(text string) string {
		clean, _ := secrets.Counted(text)
		return clean
	}
}

// fill takes over how a start went.
func (t *triedServer) fill(s *doctor.Start, secrets *scrub.Set, shown func(text string) string) {
	t.TookMs = s.Took.Milliseconds()
	if s.Err != nil {
		t.Error = secrets.Error(s.Err)
		return
	}
	t.OK, t.Protocol, t.ServerName, t.ServerVersion = true, s.Tools.Version, shown(s.Tools.ServerName), shown(s.Tools.ServerVersion)
	for _, tool := range s.Tools.Tools {
		t.Tools = append(t.Tools, triedTool{Name: shown(tool.Name), Description: shown(tool.Description)})
	}
	if len(t.Tools) == 0 {
		t.Notes = append(t.Notes, "it lists no tools; it may need a key or a setting first")
	}
	if s.Tools.Skipped > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d definitions of its listing are broken and were left out", s.Tools.Skipped))
	}
}

func printTried(cmd *cobra.Command, out io.Writer, list []*triedServer) error {
	for _, t := range list {
		took := (time.Duration(t.TookMs) * time.Millisecond).Round(10 * time.Millisecond)
		if !t.OK {
			after := ""
			if t.TookMs > 0 {
				after = fmt.Sprintf(" (after %s)", took)
			}
			fmt.Fprintf(out, "✗ %s: %s%s\n", printable(t.Server), printable(t.Error.Message), after)
			for _, d := range t.Error.Details {
				fmt.Fprintf(out, "  | %s\n", printable(d))
			}
			if t.Error.Hint != "" {
				fmt.Fprintf(out, "  hint: %s\n", printable(withSources(cmd, shellHint(t.Error.Hint, t.Server, ""))))
			}
		} else {
			who := strings.TrimSpace(t.ServerName + " " + t.ServerVersion)
			if who != "" {
				who = " (" + who + ")"
			}
			fmt.Fprintf(out, "✓ %s: %s in %s, protocol %s%s\n", printable(t.Server), counted(uint64(len(t.Tools)), "tool", "tools"), took, printable(t.Protocol), printable(who))
			tools := table{width: terminalWidth(out)}
			for _, tool := range t.Tools {
				line, _, _ := strings.Cut(strings.TrimSpace(tool.Description), "\n")
				tools.row("  "+printable(tool.Name), printable(line))
			}
			if err := tools.print(out); err != nil {
				return err
			}
		}
		for _, n := range t.Notes {
			fmt.Fprintf(out, "  note: %s\n", printable(n))
		}
	}
	return nil
}
