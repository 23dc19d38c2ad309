package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/scrub"
)

// doctorFlags are the flags of one command.
type doctorFlags struct {
	timeout           time.Duration
	noStart           bool
	servers           []string
	network, fix, raw bool
	verbose           bool
}

func newDoctor(c *common) *cobra.Command {
	f := doctorFlags{}
	cmd := &cobra.Command{
		Use: "doctor", Short: "Find out what does not work, why, and how to mend it",
		Long: `Look at the configuration, the commands of the servers, the state folder, the
hosts that run, the configuration files of known clients and the embedder, and
really start every server once. Nothing is changed without --fix, and no value
of a variable, a header or an argument is shown.

Exit status: 0 all is well (there may be warnings), 1 something fails, 2 wrong
usage, 130 interrupted.`,
		Example: `  metamcp doctor --server github
  metamcp doctor --no-start --json`,
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return runDoctor(ctx, cmd, c, &f)
		},
	}
	fl := cmd.Flags()
	fl.Var((*patience)(&f.timeout), "timeout", "how long the start of a server may take: 30s, 2m, or milliseconds (default: a minute; what npx or the like downloads, its startupTimeoutMs)")
	fl.BoolVar(&f.noStart, "no-start", false, "start no server")
	fl.StringArrayVar(&f.servers, "server", nil, "look at this server only, by `NAME`; may be repeated")
	fl.BoolVar(&f.network, "network", false, "try whether an embedder that is reached over the network answers")
	fl.BoolVar(&f.fix, "fix", false, "mend what is safe: open modes, sockets and processes that dead hosts left")
	fl.BoolVar(&f.raw, "json", false, "print JSON")
	fl.BoolVar(&f.verbose, "verbose", false, "explain what is well too")
	return cmd
}

func runDoctor(ctx context.Context, cmd *cobra.Command, c *common, f *doctorFlags) error {
	p, err := c.patient(f)
	if err != nil {
		return err
	}
	for _, name := range f.servers {
		if p.LoadError == nil && p.Config.Server(name) == nil && p.Config.LeftOut(name) == nil {
			return usageError{fmt.Errorf("--server %s: there is no such server in the configuration; it has: %s", name, serverNames(p.Config))}
		}
	}
	if !f.raw && !f.noStart && terminalWidth(shown(cmd.OutOrStdout())) > 0 {
		// Who sits there should not wonder why nothing comes.
		fmt.Fprintln(c.stderr, "looking; servers are started, which may take a minute …")
	}
	secrets := scrub.New(p.Config.Servers)
	checks := append(p.Checks(), metamcp.CacheCheck(p.Config), metamcp.EmbedderCheck(p.Config, f.network),
		metamcp.SkillsCheck(p.Home, p.Cwd, p.Config.Settings.Skills))
	results := doctor.Run(ctx, checks, secrets, 0)
	if ctx.Err() == nil {
		results = append(results, startResults(ctx, p, f, secrets)...)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(c.stderr, "metamcp: interrupted; all servers were ended")
		return statusError(exitInterrupted)
	}
	results = byGroup(results)
	sum := doctor.Summarize(results)
	if f.raw {
		enc := json.NewEncoder(shown(cmd.OutOrStdout()))
		enc.SetIndent("", "  ")
		err = enc.Encode(doctorReport{Version: buildVersion(), Summary: sum, Results: results})
	} else {
		out := shown(cmd.OutOrStdout())
		width := terminalWidth(out)
		err = printDoctor(out, results, sum, look{width: width, colours: width > 0 && os.Getenv("NO_COLOR") == ""}, f.verbose)
	}
	if err == nil && sum.Fail > 0 {
		err = statusError(exitFailed)
	}
	return err
}

// doctorReport is the answer for scripts.
type doctorReport struct {
	Version string          `json:"version"`
	Summary doctor.Summary  `json:"summary"`
	Results []doctor.Result `json:"results"`
}

// patient is what this command line means.
func (c *common) patient(f *doctorFlags) (*doctor.Patient, error) {
	p := &doctor.Patient{GOOS: runtime.GOOS, Getenv: os.Getenv, Version: buildVersion(), Servers: f.servers, Fix: f.fix}
	var err error
	if p.Cwd, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("the working folder is not known, so no path can be looked at: %w", err)
	}
	p.Home, _ = os.UserHomeDir() // without one, files in it are not found
	if p.Executable, err = ownPath(); err != nil {
		return nil, err
	}
	switch named, _ := namedFiles(c.files); {
	case named == nil:
	case len(c.files) > 0:
		p.FilesFrom = "--config"
	default:
		p.FilesFrom = config.FilesVariable
	}
	p.Config, p.LoadError = doctor.Load(func() (*config.Config, error) { return config.Load(c.sources()) })
	if p.LoadError != nil {
		if p.Config, err = c.withoutFiles(); err != nil {
			// Flags or variables are wrong: nothing is known, and that is the finding.
			p.Config = &config.Config{Settings: config.DefaultSettings()}
			p.Config.Settings.Audit.File, p.Config.Settings.StateDir = "", ""
		}
	}
	return p, nil
}

func serverNames(cfg *config.Config) string {
	const most = 20
	var names []string
	for i, spec := range cfg.Servers {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(cfg.Servers)-most))
			break
		}
		names = append(names, spec.Name)
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, ", ")
}

// startResults starts the servers and says how that went.
func startResults(ctx context.Context, p *doctor.Patient, f *doctorFlags, secrets *scrub.Set) []doctor.Result {
	skipped := func(server, why string) doctor.Result {
		return doctor.Result{ID: "server.start", Group: doctor.GroupServers, Subject: server, Status: doctor.Skipped, Found: why}
	}
	switch {
	case f.noStart:
		return []doctor.Result{skipped("", "not tried, since --no-start was given")}
	case p.LoadError != nil:
		return []doctor.Result{skipped("", "the configuration could not be read")}
	}
	// Commands are looked up for it, and folders of PATH may hang.
	wanted, err := doctor.Load(func() (map[string]bool, error) {
		wanted := map[string]bool{}
		for _, spec := range p.Config.Servers {
			wanted[spec.Name] = p.MayStart(spec.Name)
		}
		return wanted, nil
	})
	if err != nil {
		return []doctor.Result{skipped("", "not tried: the commands of the servers could not be looked up; "+err.Error())}
	}
	var results []doctor.Result
	for _, name := range f.servers {
		switch spec := p.Config.Server(name); {
		case spec == nil || spec.Err != nil:
			results = append(results, skipped(name, "its entry is broken; see config.problem"))
		case spec.Disabled:
			results = append(results, skipped(name, "it is turned off at "+spec.Source+"; it can be turned on "+spec.TurnOn()))
		case !wanted[name]:
			results = append(results, skipped(name, "it would start itself; see config.loop"))
		}
	}
	starts, err := metamcp.TryServers(ctx, p.Config, metamcp.StartOptions{
		Wanted: func(name string) bool { return wanted[name] }, Timeout: f.timeout, Version: buildVersion(),
	})
	for i := range starts {
		r := starts[i].Result()
		r.Fix = shellHint(r.Fix, r.Subject, "")
		results = append(results, r.Shown(secrets))
	}
	if err != nil {
		r := doctor.Result{
			ID: "server.start", Group: doctor.GroupServers, Status: doctor.Fail, Found: err.Error(),
			Why: "Servers that do not end stay in memory.", Fix: "Try it by hand: metamcp discover; it ends them in the same way.",
		}
		var e *metamcp.Error
		if errors.As(err, &e) && e.Hint != "" {
			r.Fix = e.Hint
		}
		results = append(results, r.Shown(secrets))
	}
	if len(results) == 0 {
		return []doctor.Result{skipped("", "there is no server to start")}
	}
	return results
}

// byGroup puts results that belong together behind each other.
func byGroup(results []doctor.Result) []doctor.Result {
	sorted := make([]doctor.Result, 0, len(results))
	for _, g := range doctor.Groups() {
		for i := range results {
			if results[i].Group == g {
				sorted = append(sorted, results[i])
			}
		}
	}
	return sorted
}
