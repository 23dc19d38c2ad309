package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
)

// provisionFlags are those of metamcp provision.
type provisionFlags struct {
	context             string
	env, set            []string
	yes, dryRun, asJSON bool
}

func newProvision(c *common) *cobra.Command {
	var f provisionFlags
	cmd := &cobra.Command{
		Use: "provision INTENT...", Short: "Get a server for what you need",
		Long: `Find a server for what you need: among the configured ones, else in the registry
and the gallery. At a terminal you are shown what could be installed and asked;
your yes stands in for trust. --yes asks nobody and installs only what
mcp_provision would: a server that the trust file trusts, named exactly. Without
a terminal and without --yes nothing is installed.

NAME@VERSION is installed in exactly that version. --set gives a server what it
needs, an argument or a variable (--env is the same); what it is called is in the
list. A secret is kept with "metamcp secrets set NAME" and given as
--set NAME='${secret:NAME}'; in plain it is refused.

What is installed is tried once, kept in stateDir, and taken over by every
running metamcp that shares it. Nothing is left of what fails.

Exit status: 0 a server is there, now or before, or --dry-run said what would be
done; 1 nothing was installed; 2 wrong usage; 130 interrupted.`,
		Example: `  metamcp provision take screenshots of web pages
  metamcp provision @modelcontextprotocol/server-everything --yes
  metamcp provision @modelcontextprotocol/server-filesystem --set folder=$HOME/work --yes
  metamcp provision @stripe/mcp --set 'STRIPE_SECRET_KEY=${secret:STRIPE_KEY}' --dry-run`,
		Args: args(someArgs),
		RunE: func(cmd *cobra.Command, given []string) error {
			env, err := variables(slices.Concat(f.env, f.set))
			if err != nil {
				return err
			}
			req := metamcp.ProvisionRequest{
				Intent: strings.Join(given, " "), Context: f.context, AutoProvision: f.yes, DryRun: f.dryRun, Env: env,
				Whole: !f.asJSON, // the budget is for models
			}
			return f.run(cmd, c, req)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.context, "context", "", "what else there is to say; it helps to choose and names nothing")
	flags.StringArrayVar(&f.set, "set", nil, "give the server what it needs, an argument or a variable: `NAME=VALUE`; a secret as NAME='${secret:NAME}', or NAME='${VARIABLE}' of the environment in which metamcp runs")
	flags.StringArrayVar(&f.env, "env", nil, "the same as --set: `NAME=VALUE`")
	flags.BoolVar(&f.yes, "yes", false, "ask nobody; install what is trusted and named exactly")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be installed, and install nothing")
	flags.BoolVar(&f.asJSON, "json", false, "print what a model would get; asks nobody")
	return cmd
}

// variables reads NAME=VALUE pairs.
func variables(pairs []string) (map[string]string, error) {
	env := map[string]string{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError{errors.New("--set and --env take NAME=VALUE")} // what was given may be a secret
		}
		env[name] = value
	}
	return env, nil
}

func (f *provisionFlags) run(cmd *cobra.Command, c *common, req metamcp.ProvisionRequest) error {
	return withEngineUntil(cmd.Context(), c, "what was not done to its end was undone", func(ctx context.Context, e *metamcp.Engine) error {
		if !f.asJSON {
			req.Progress = func(s metamcp.ProvisionStep) { fmt.Fprintln(cmd.ErrOrStderr(), printable(s.Text)) }
		}
		a, err := f.provision(ctx, cmd, e, req)
		if err != nil || !f.asks(cmd, a) {
			return err
		}
		best, err := chosenOption(ctx, cmd, a)
		switch {
		case err != nil:
			return err
		case best == nil:
			fmt.Fprintln(cmd.OutOrStdout(), "Nothing was installed.")
			return statusError(exitFailed)
		}
		req.Person, req.Choice, req.ChoiceVersion = true, best.Key, best.Version
		_, err = f.provision(ctx, cmd, e, req)
		return err
	})
}

// provision makes one request and shows its answer. The error is also the exit
// status that the answer means, unless somebody is to be asked.
func (f *provisionFlags) provision(ctx context.Context, cmd *cobra.Command, e *metamcp.Engine, req metamcp.ProvisionRequest) (*metamcp.ProvisionAnswer, error) {
	a, err := e.Provision(ctx, req)
	switch {
	case err != nil:
		return nil, err
	case f.asJSON:
		err = printJSON(cmd.OutOrStdout(), a)
	default:
		err = printProvision(cmd, cmd.OutOrStdout(), a, f.dryRun)
		if err == nil && a.Decision == metamcp.DecisionRecommended && !f.dryRun && !f.asks(cmd, a) {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(unattended(cmd, a)))
		}
	}
	if err == nil && !f.asks(cmd, a) {
		err = f.status(a)
	}
	return a, err
}

// asks says whether a person is to be asked what to install.
func (f *provisionFlags) asks(cmd *cobra.Command, a *metamcp.ProvisionAnswer) bool {
	return !f.yes && !f.dryRun && !f.asJSON && a.Decision == metamcp.DecisionRecommended && interactive(cmd) &&
		slices.ContainsFunc(a.Matches, func(o metamcp.ProvisionOption) bool { return installable(&o) })
}

// status is the exit status that an answer ends with.
func (f *provisionFlags) status(a *metamcp.ProvisionAnswer) error {
	switch {
	case a.Decision == metamcp.DecisionLocal, a.Decision == metamcp.DecisionProvisioned:
		return nil
	case f.dryRun && a.Decision == metamcp.DecisionRecommended:
		return nil
	}
	return statusError(exitFailed)
}

func withVersion(o *metamcp.ProvisionOption) string {
	if o.Version == "" {
		return o.Name
	}
	return o.Name + " " + o.Version
}

// printProvision shows an answer to a person.
func printProvision(cmd *cobra.Command, out io.Writer, a *metamcp.ProvisionAnswer, dryRun bool) error {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, printable(fmt.Sprintf(format, args...))) }
	switch a.Decision {
	case metamcp.DecisionLocal:
		if a.Server != "" {
			say("%s is configured (%s).", a.Server, a.Reason)
		} else {
			say("Configured servers do that.")
		}
	case metamcp.DecisionProvisioned:
		say("%s %s is installed as %s: %s.", a.Package, a.Version, a.Server, a.Reason)
	case metamcp.DecisionDenied:
		say("%s", withSources(cmd, a.Denied.Message))
		switch {
		case len(a.Missing) > 0:
			say("hint: give it with: %s", giveLine(cmd, a.Package, a.Missing))
		case a.Denied.Hint != "":
			say("hint: %s", withSources(cmd, shellHint(a.Denied.Hint, "", "")))
		}
	case metamcp.DecisionNothing:
		say("No server was found.")
	default:
		if len(a.Unknown) > 0 {
			say("Nobody knows %s. Other servers, best first:", strings.Join(a.Unknown, ", "))
		} else {
			say("Servers that fit, best first:")
		}
		if dryRun && len(a.Matches) > 0 {
			would := "would not be installed without a person: "
			if a.Matches[0].Trusted && (a.Matches[0].Gate == "" || a.Matches[0].Gate == "setting") {
				would = ""
			}
			say("%s: %s%s", a.Matches[0].Name, would, withSources(cmd, forPerson(a.Reason)))
			a.Matches[0].Reason = "" // said
		}
	}
	for _, m := range a.Missing {
		say("  needs the %s %s%s", placeOf(&m), m.Name, aboutVariable(m))
	}
	for i := range a.Matches {
		lines = append(lines, matchText(cmd, &a.Matches[i])...)
	}
	if _, err := fmt.Fprintln(out, strings.Join(lines, "\n")); err != nil {
		return err
	}
	if len(a.Tools) > 0 {
		t := table{width: terminalWidth(out)}
		t.row("SERVER", "TOOL", "SUMMARY")
		for _, l := range a.Tools {
			t.row(l.Server, l.Tool, tagged(l.Summary, toolMarks(l.Tags, &l.Marks)...))
		}
		if err := t.print(out); err != nil {
			return err
		}
	}
	for _, note := range a.Notes {
		if _, err := fmt.Fprintln(out, "note:", printable(withSources(cmd, shellHint(note, a.Server, "")))); err != nil {
			return err
		}
	}
	return nil
}

// matchText is an option in a few lines.
func matchText(cmd *cobra.Command, o *metamcp.ProvisionOption) []string {
	lines := []string{"", printable(fmt.Sprintf("%s  (confidence %.2f)", withVersion(o), o.Confidence))}
	add := func(name, text string) {
		if text != "" {
			lines = append(lines, fmt.Sprintf("  %-10s %s", name, printable(text)))
		}
	}
	add("about", o.Description)
	add("registry", o.Registered)
	add("status", o.Status)
	if len(o.Suspicious) > 0 {
		add("careful", "its description reads like orders to a model ("+strings.Join(o.Suspicious, ", ")+") and was left out")
	}
	add("trust", withSources(cmd, forPerson(o.Reason)))
	add("add", withSources(cmd, o.Add))
	add("try", o.Install)
	if o.Entry != nil {
		add("entry", string(o.Entry))
	}
	for _, v := range o.Environment {
		add(placeOf(&v), v.Name+aboutVariable(v))
	}
	add("problem", o.Problem)
	return lines
}

func aboutVariable(v metamcp.ProvisionVariable) string {
	var about []string
	if v.Required {
		about = append(about, "required")
	}
	if v.Secret {
		about = append(about, "secret")
	}
	if v.Default != "" {
		about = append(about, "default "+v.Default)
	}
	if len(v.Choices) > 0 {
		about = append(about, "one of "+strings.Join(v.Choices, ", "))
	}
	text := ""
	if len(about) > 0 {
		text = " (" + strings.Join(about, "; ") + ")"
	}
	if v.Description != "" {
		text += ": " + v.Description
	}
	return text
}
