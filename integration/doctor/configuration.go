package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

func (p *Patient) configChecks() []Check {
	check := func(id string, run func() []Result) Check {
		return Check{ID: id, Group: GroupConfiguration, Run: func(context.Context) []Result {
			if p.LoadError != nil {
				return []Result{{Status: Skipped, Found: "the configuration could not be read"}}
			}
			return run()
		}}
	}
	return []Check{
		{ID: "config.files", Group: GroupConfiguration, Run: func(context.Context) []Result { return p.configFiles() }},
		check("config.problem", p.configProblems),
		check("config.warning", p.configWarnings),
		check("config.loop", p.loops),
	}
}

// configFiles says which files were read, the strongest last.
func (p *Patient) configFiles() []Result {
	if p.LoadError != nil {
		r := Result{
			Status: Fail, Found: p.LoadError.Error(), Why: "Without a configuration that can be read metamcp does not start.",
			Fix: "Correct the file at the place that is named.",
		}
		var e *messages.Error
		if errors.As(p.LoadError, &e) {
			r.Found = e.Message
			if e.Hint != "" {
				r.Fix = e.Hint
			}
		}
		return []Result{r}
	}
	files := p.Config.Files
	if len(files) == 0 {
		r := Result{Status: Warn, Found: "no configuration file was found", Why: "metamcp runs, but has no servers."}
		for _, w := range p.Config.Warnings {
			if w.File == "" && strings.Contains(w.Message, "no configuration file") {
				r.Found, r.Fix = w.Message, w.Hint
			}
		}
		return []Result{r}
	}
	how := "found by itself: ./.mcp.json counts before ~/.metamcp/mcp.json, and only the first is read"
	if p.FilesFrom != "" {
		how = "named by " + p.FilesFrom
	}
	found := fmt.Sprintf("%s, %s (%s)", files[0], count(len(p.Config.Servers), "server"), how)
	r := Result{Status: OK, Found: found}
	if len(files) > 1 {
		r.Found = fmt.Sprintf("%d files, %s (%s); a later one overrides an earlier one", len(files), count(len(p.Config.Servers), "server"), how)
		for i, f := range files {
			r.Details = append(r.Details, fmt.Sprintf("%d. %s", i+1, f))
		}
	}
	return []Result{r}
}

func (p *Patient) configProblems() []Result {
	return problems(p.ofInterest(p.Config.Problems), Fail, "What is named does not work: the server refuses every call, or the setting is as if it were not there.", "nothing is broken")
}

func (p *Patient) configWarnings() []Result {
	list := slices.DeleteFunc(p.ofInterest(p.Config.Warnings), func(w config.Problem) bool {
		return len(p.Config.Files) == 0 && strings.Contains(w.Message, "no configuration file") // config.files says it
	})
	return problems(list, Warn, "What is not known is ignored, so it may not do what was meant.", "nothing odd")
}

// ofInterest leaves out what belongs to servers that were not asked for.
func (p *Patient) ofInterest(list []config.Problem) []config.Problem {
	return slices.DeleteFunc(slices.Clone(list), func(w config.Problem) bool { return w.Server != "" && !p.wanted(w.Server) })
}

// problems makes a result of each problem of a configuration.
func problems(list []config.Problem, status Status, why, none string) []Result {
	if len(list) == 0 {
		return []Result{{Status: OK, Found: none}}
	}
	results := make([]Result, len(list))
	for i, w := range list {
		found := w.Message
		if at := w.Position(); at != "" {
			found = at + ": " + found
		}
		fix := w.Hint
		if fix == "" {
			fix = "Correct that place, or remove it."
		}
		results[i] = Result{Subject: w.Server, Status: status, Found: found, Why: why, Fix: fix}
	}
	return results
}

// servers are the entries to look at that are neither broken nor turned off.
func (p *Patient) servers() []*messages.ServerSpec {
	var list []*messages.ServerSpec
	for _, spec := range p.Config.Servers {
		if p.wanted(spec.Name) && spec.Err == nil && !spec.Disabled {
			list = append(list, spec)
		}
	}
	return list
}

func (p *Patient) wanted(server string) bool {
	return len(p.Servers) == 0 || slices.Contains(p.Servers, server)
}

// count is a number of things for people.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	switch {
	case strings.HasSuffix(thing, "s"):
		thing += "e"
	case strings.HasSuffix(thing, "ry"):
		thing = strings.TrimSuffix(thing, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
