package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
)

func newRegistry(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "registry", Short: "Look into the registry of MCP servers", Args: args(noArgs),
		Example: `  metamcp registry search postgres`,
		Long: `The registry (registry.url) knows public MCP servers. What it answers is kept for
a day in stateDir/registry-cache.json; where it cannot be reached, the cache
answers however old, then a built-in list of 20 servers with the gallery
(metamcp add --list).`,
	}
	cmd.AddCommand(newRegistrySearch(c))
	return cmd
}

func newRegistrySearch(c *common) *cobra.Command {
	var q registry.Query
	var asJSON bool
	const fewServers = 30
	cmd := &cobra.Command{
		Use: "search QUERY", Short: "Search the registry for servers",
		Long: `Search the registry for servers with QUERY in their name, else for its words. A
well-known server whose package QUERY names is always found. TRUST says whether
metamcp may install a server by itself (metamcp trust list); that it is listed
says nothing about who wrote it. What is deprecated comes last, and ABOUT says so.

Exit status: 0 also where the registry gave no answer and the cache or the
built-in lists did; a note on standard error says so.`,
		Example: `  metamcp registry search postgres
  metamcp registry search github --limit 5 --json`,
		Args: args(someArgs),
		RunE: func(cmd *cobra.Command, given []string) error {
			if q.Limit < 1 {
				return usageError{errors.New("--limit is a number of servers, 1 at least")}
			}
			q.Search = strings.Join(given, " ")
			cfg, err := config.Load(c.sources())
			if err != nil {
				return err
			}
			return interruptible(cmd.Context(), "nothing was changed", func(ctx context.Context) error {
				a, err := metamcp.SearchRegistry(ctx, &cfg.Settings, q)
				if err != nil {
					return registryError(err)
				}
				if asJSON {
					return printJSON(shown(cmd.OutOrStdout()), searchReport(a, trust.Load(cfg.Settings.TrustFile)))
				}
				for _, note := range a.Notes {
					fmt.Fprintln(cmd.ErrOrStderr(), "note:", printable(note))
				}
				return printFound(shown(cmd.OutOrStdout()), a, trust.Load(cfg.Settings.TrustFile))
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&q.Limit, "limit", fewServers, "show at most so many `servers`")
	flags.BoolVar(&q.AllVersions, "all-versions", false, "show older versions too")
	flags.BoolVar(&q.IncludeDeleted, "deleted", false, "show deleted servers too")
	flags.BoolVar(&q.Refresh, "refresh", false, "ask the registry even where the cache is young")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// registryError keeps the hint of a registry's error.
func registryError(err error) error {
	var e *registry.Error
	if !errors.As(err, &e) {
		return err
	}
	if e.Hint != "" {
		err = fmt.Errorf("%w; %s", err, e.Hint)
	}
	if e.Reason == registry.Invalid {
		return usageError{err}
	}
	return err
}

// foundServer is a server for scripts: its server.json, and what we think of it.
type foundServer struct {
	*registry.Server
	Status        registry.Status `json:"status"`
	StatusMessage string          `json:"statusMessage,omitempty"`
	LeftOut       []string        `json:"leftOut,omitempty"`
	// Suspicious are the kinds of text in it that read like orders to a model.
	Suspicious []string     `json:"suspicious,omitempty"`
	Trust      []foundTrust `json:"trust"`
}

type foundTrust struct {
	Kind    registry.Kind `json:"kind"`
	Package string        `json:"package"`
	Trusted bool          `json:"trusted"`
	Gate    trust.Gate    `json:"gate,omitempty"`
	Reason  string        `json:"reason"`
}

// foundReport is an answer for scripts.
type foundReport struct {
	Source     registry.Source `json:"source"`
	AgeSeconds int64           `json:"ageSeconds"`
	Complete   bool            `json:"complete"`
	Notes      []string        `json:"notes,omitempty"`
	Servers    []foundServer   `json:"servers"`
}

func searchReport(a *registry.Answer, p *trust.Policy) foundReport {
	r := foundReport{Source: a.Source, AgeSeconds: int64(a.Age.Seconds()), Complete: a.Complete, Notes: a.Notes, Servers: []foundServer{}}
	for i := range a.Servers {
		s := &a.Servers[i]
		r.Servers = append(r.Servers, foundServer{s, s.Status, s.StatusMessage, s.Dropped, metamcp.Orders(s), judge(s, p)})
	}
	return r
}

// judge says of each way to get a server whether it is trusted.
func judge(s *registry.Server, p *trust.Policy) []foundTrust {
	list := []foundTrust{}
	for _, c := range trust.Candidates(s) {
		d := p.Decide(&c, trust.Confidence{}, trust.NotAsked)
		t := foundTrust{Kind: c.Kind, Package: c.Package, Trusted: d.Trusted, Gate: d.Gate, Reason: d.Reason()}
		if d.Trusted {
			t.Gate, t.Reason = "", "trusted by "+d.By
		}
		list = append(list, t)
	}
	return list
}

func printFound(out io.Writer, a *registry.Answer, p *trust.Policy) error {
	if len(a.Servers) == 0 {
		_, err := fmt.Fprintln(out, "no servers; try a shorter word, or a part of a name")
		return err
	}
	t := table{width: terminalWidth(out)}
	t.row("NAME", "VERSION", "TRUST", "FROM", "ABOUT")
	for i := range a.Servers {
		s := &a.Servers[i]
		about := s.Description
		if signs := metamcp.Orders(s); len(signs) > 0 {
			about = "left out: what it says of itself reads like orders to a model (" + strings.Join(signs, ", ") + ")"
		} else if s.Status != registry.Active {
			about = strings.TrimSpace(string(s.Status) + ": " + s.StatusMessage + " " + about)
		}
		version := s.Version
		if version == "" {
			version = "-"
		}
		t.row(s.Name, printable(version), trustWord(judge(s, p)), kinds(s), printable(about))
	}
	return t.print(out)
}

// trustWord is the best of what is to be said of the ways to get a server.
func trustWord(ways []foundTrust) string {
	word := "no"
	for _, w := range ways {
		switch {
		case w.Trusted:
			return "yes"
		case w.Gate == trust.GateBlocked, w.Gate == trust.GateImitation:
			word = string(w.Gate)
		}
	}
	return word
}

// kinds lists where a server comes from.
func kinds(s *registry.Server) string {
	var list []string
	for _, c := range trust.Candidates(s) {
		if kind := string(c.Kind); len(list) == 0 || list[len(list)-1] != kind {
			list = append(list, kind)
		}
	}
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}
