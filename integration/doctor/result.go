package doctor

import (
	"fmt"
	"strings"

	"github.com/metamcp/metamcp/integration/scrub"
)

// Status is the outcome of a check.
type Status string

// The outcomes. A skipped check could not be made, or was not asked for.
const (
	OK      Status = "ok"
	Warn    Status = "warn"
	Fail    Status = "fail"
	Skipped Status = "skipped"
)

// Group is a set of checks that are shown together.
type Group string

// The groups, in the order in which they are shown.
const (
	GroupConfiguration Group = "configuration"
	GroupCommands      Group = "commands"
	GroupServers       Group = "servers"
	GroupState         Group = "state"
	GroupHosts         Group = "hosts"
	GroupClients       Group = "clients"
	GroupEmbedder      Group = "embedder"
)

// Groups are all groups in the order in which they are shown.
func Groups() []Group {
	return []Group{GroupConfiguration, GroupCommands, GroupServers, GroupState, GroupHosts, GroupClients, GroupEmbedder}
}

// Result is one finding.
type Result struct {
	// ID names the check, such as "command.found"; it stays the same between
	// versions.
	ID    string `json:"id"`
	Group Group  `json:"group"`
	// Subject is what was looked at: a server, a file, a client; "": the whole.
	Subject string `json:"subject,omitempty"`
	Status  Status `json:"status"`
	Found   string `json:"found"`         // what was seen, in one line
	Why     string `json:"why,omitempty"` // why that matters; "" where it is ok
	// Fix is how to mend it: a command, or what to change where.
	Fix     string   `json:"fix,omitempty"`
	Details []string `json:"details,omitempty"` // more of what was seen, such as the end of stderr
	// Fixed says that it was found broken and has been mended just now.
	Fixed bool `json:"fixed,omitempty"`
}

const (
	// maxText bounds what one line shows of texts that others wrote, in bytes.
	maxText = 2000
	// maxDetails bounds the lines of one result.
	maxDetails = 50
)

// Shown is the result without secrets and of bounded length. [Run] does that by
// itself.
func (r Result) Shown(secrets *scrub.Set) Result {
	clean := func(text string) string {
		text = secrets.Text(text)
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "") + "…"
		}
		return text
	}
	r.Subject, r.Found, r.Why, r.Fix = clean(r.Subject), clean(r.Found), clean(r.Why), clean(r.Fix)
	var details []string
	for i, d := range r.Details {
		if i == maxDetails {
			details = append(details, fmt.Sprintf("and %d more", len(r.Details)-i))
			break
		}
		details = append(details, clean(d))
	}
	r.Details = details
	return r
}

// Summary counts results.
type Summary struct {
	OK      int `json:"ok"`
	Warn    int `json:"warn"`
	Fail    int `json:"fail"`
	Skipped int `json:"skipped"`
	Fixed   int `json:"fixed"`
}

// Summarize counts results by status.
func Summarize(results []Result) Summary {
	var s Summary
	for i := range results {
		switch results[i].Status {
		case OK:
			s.OK++
		case Warn:
			s.Warn++
		case Fail:
			s.Fail++
		case Skipped:
			s.Skipped++
		}
		if results[i].Fixed {
			s.Fixed++
		}
	}
	return s
}
