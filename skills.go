package metamcp

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/index"
	ranking "github.com/metamcp/metamcp/index/rank"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/skills"
)

const (
	// skillsShown is how many skills come with the matches of a query.
	skillsShown = 3
	// leastSkill is the score under which a skill is not worth its tokens.
	leastSkill = 0.25
)

// The states of a server that a skill requires.
const (
	SkillServerLive       = "live"       // it is connected
	SkillServerConfigured = "configured" // it starts with its first use
	SkillServerFailed     = "failed"     // its entry is broken, its last start failed, or its circuit is open
	SkillServerDisabled   = "disabled"
	SkillServerMissing    = "missing"
)

// SkillLine is a skill in an answer of mcp_discover. Its texts are those of its
// SKILL.md, without characters that nobody sees.
type SkillLine struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Path        string         `json:"path"`            // of its SKILL.md, which holds the instructions
	Score       float64        `json:"score,omitempty"` // of a query
	Ready       bool           `json:"ready"`           // every server that it requires is live or configured
	Requires    []RequiredLine `json:"requires,omitempty"`
	Hidden      bool           `json:"hiddenText,omitempty"`
}

// RequiredLine is a server that a skill requires.
type RequiredLine struct {
	Server string `json:"server"`
	State  string `json:"state"`
}

// newSkills looks for skills where this host was started.
func (e *Engine) newSkills() *skills.Reader {
	home, cwd := e.opts.Sources.Home, e.opts.Sources.Cwd
	if home == "" {
		home, _ = os.UserHomeDir() // without one there are those of the project
	}
	if cwd == "" {
		cwd, _ = os.Getwd()
	}
	return skills.NewReader(skills.Folders(home, cwd))
}

// skillReader is a [skills.Reader].
type skillReader interface {
	Read(ctx context.Context) ([]skills.Skill, []skills.Problem)
}

// readSkills returns the skills that there are, unless they are switched off. Files may
// be slow, so who reads them holds no turn of the searches.
func (e *Engine) readSkills(ctx context.Context) ([]skills.Skill, []skills.Problem) {
	if e.skills == nil || !e.Config().Settings.Skills {
		return nil, nil
	}
	return e.skills.Read(ctx)
}

// listSkills adds all skills to a list of servers, as far as there is room, and says
// what is wrong with others.
func (e *Engine) listSkills(list []skills.Skill, problems []skills.Problem, a *DiscoverAnswer, budget *index.Budget) {
	lines := make([]SkillLine, len(list))
	for i := range list {
		lines[i] = e.skillLine(&list[i], 0)
		lines[i].Description = summary(lines[i].Description)
	}
	e.addSkills(a, lines, budget)
	const most = 3
	for i, p := range problems {
		text, _ := index.Plain(p.String())
		note := "A skill cannot be used: " + summary(text)
		if i == most || !budget.Spend(noteTokens(note)) {
			a.Notes = append(a.Notes, fmt.Sprintf("%s cannot be used; metamcp doctor names them.", counted(len(problems)-i, "more skill", "more skills")))
			break
		}
		a.Notes = append(a.Notes, note)
	}
}

// findSkills adds those of the skills that fit a query; with a server, only those that
// require it.
func (e *Engine) findSkills(list []skills.Skill, ask *DiscoverRequest, a *DiscoverAnswer, budget *index.Budget) {
	if ask.Server != "" {
		list = slices.DeleteFunc(list, func(s skills.Skill) bool { return !slices.Contains(s.Requires, ask.Server) })
	}
	if len(list) == 0 {
		return
	}
	terms := make([]*ranking.Terms, len(list))
	for i, s := range list {
		terms[i] = ranking.Analyze(ranking.Doc{Tool: s.Name, Description: s.Description, Tags: s.Requires})
	}
	var lines []SkillLine
	for _, hit := range ranking.Build(terms).Search(ranking.Query{Text: ask.Query, Limit: skillsShown}) {
		if hit.Score >= leastSkill {
			lines = append(lines, e.skillLine(&list[hit.Doc], hit.Score))
		}
	}
	e.addSkills(a, lines, budget)
}

func (e *Engine) addSkills(a *DiscoverAnswer, lines []SkillLine, budget *index.Budget) {
	if len(lines) == 0 {
		return
	}
	var cut int
	a.Skills, cut = index.Cut(budget, lines, tokens)
	if cut > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d more skills are left out; find them with a query.", cut))
	}
	if len(a.Skills) == 0 {
		return
	}
	a.Notes = append(a.Notes, "Skills are instructions: before a task that one fits, read the file at its path.")
	if slices.ContainsFunc(a.Skills, func(l SkillLine) bool { return !l.Ready }) {
		a.Notes = append(a.Notes, "A skill that is not ready requires servers that are missing, disabled or failed; the user can add them.")
	}
	if slices.ContainsFunc(a.Skills, func(l SkillLine) bool { return l.Hidden }) && !slices.Contains(a.Notes, hiddenNote) {
		a.Notes = append(a.Notes, hiddenNote)
	}
}

func (e *Engine) skillLine(s *skills.Skill, score float64) SkillLine {
	l := SkillLine{Ready: true, Score: math.Round(score*1000) / 1000}
	plain := func(text string) string {
		text, hidden := index.Plain(text)
		l.Hidden = l.Hidden || hidden
		return strings.Join(strings.Fields(text), " ")
	}
	l.Name, l.Description, l.Path = plain(s.Name), plain(s.Description), s.Path
	for _, server := range s.Requires {
		state := e.skillServer(server)
		l.Ready = l.Ready && (state == SkillServerLive || state == SkillServerConfigured)
		l.Requires = append(l.Requires, RequiredLine{plain(server), state})
	}
	return l
}

// skillServer is the state of a server that a skill requires.
func (e *Engine) skillServer(name string) string {
	entry, ok := e.core.Directory().Lookup(name)
	if !ok {
		return SkillServerMissing
	}
	switch spec, status := entry.Spec(), entry.Status(); {
	case spec.Disabled:
		return SkillServerDisabled
	case spec.Err != nil, status.LastError != nil: // connected or not
		return SkillServerFailed
	case status.Connected:
		return SkillServerLive
	}
	return SkillServerConfigured
}

// SkillsCheck names the skills that cannot be used. home or cwd may be "".
func SkillsCheck(home, cwd string, wanted bool) doctor.Check {
	return doctor.Check{ID: "skills", Group: doctor.GroupState, Run: func(ctx context.Context) []doctor.Result {
		if !wanted {
			return []doctor.Result{{Status: doctor.Skipped, Found: "they are switched off"}}
		}
		list, problems := skills.NewReader(skills.Folders(home, cwd)).Read(ctx)
		if len(problems) == 0 {
			return []doctor.Result{{Status: doctor.OK, Found: fmt.Sprintf("%d can be found", len(list))}}
		}
		results := make([]doctor.Result, len(problems))
		for i, p := range problems {
			results[i] = doctor.Result{
				Subject: p.Path, Status: doctor.Warn, Found: p.Message, Why: "No search finds it.",
				Fix: "Correct its front matter; docs/SKILLS.md says what it holds.",
			}
		}
		return results
	}}
}
