package trust

import (
	"fmt"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/messages"
)

// Policy is what a trust file says. It is never changed once it was made.
type Policy struct {
	Trusted []Entry
	Blocked []Entry
	// Threshold is the confidence that is asked for, from [Threshold] to 1; 0
	// counts as [Threshold].
	Threshold float64
	// File is where it was read; "" for one that was made otherwise.
	File string
	// Problem is why nothing is trusted: the file is broken; "": it is not.
	Problem string
	// Note is what else there is to say of the file; "": nothing.
	Note string

	once  sync.Once
	names []genuineName // of Trusted, made when they are first needed
}

// DefaultEntries are what a new file trusts.
var DefaultEntries = []string{"@modelcontextprotocol/*", "@anthropic/*"}

// Default is the policy of a new file.
func Default() *Policy {
	p := &Policy{Threshold: Threshold}
	for _, text := range DefaultEntries {
		if e, err := ParseEntry(text); err == nil { // TestDefault would have failed
			p.Trusted = append(p.Trusted, e)
		}
	}
	return p
}

// Setting says whether installing without a person was allowed.
type Setting string

// The settings.
const (
	NotAsked  Setting = "not asked" // the call did not say autoProvision
	Asked     Setting = "asked"     // it did
	Forbidden Setting = "forbidden" // the client, or the session, may not
)

// Gate is one condition; all must hold.
type Gate string

// The gates, in the order in which they are looked at.
const (
	GateFile       Gate = "trust file" // it can be read
	GateStatus     Gate = "status"     // the server was not deleted
	GateBlocked    Gate = "blocked"    // nobody blocked it
	GateImitation  Gate = "imitation"  // it passes itself off as nobody else
	GateNamespace  Gate = "namespace"  // the file trusts it
	GateEntry      Gate = "entry"      // a description that nobody trusts fixes nothing
	GateConfidence Gate = "confidence" // it is surely the one that is meant
	GateSetting    Gate = "setting"    // installing was asked for, and is allowed
)

// Check is how one gate turned out.
type Check struct {
	Gate   Gate   `json:"gate"`
	Passed bool   `json:"passed"`
	Reason string `json:"reason"`
}

// Decision says whether a server may be installed without a person, and why.
type Decision struct {
	Allowed bool `json:"allowed"`
	// Gate is the first that failed; "" where all held.
	Gate Gate `json:"gate,omitempty"`
	// Trusted says that every gate about the server itself held, so that only
	// confidence or setting can have failed.
	Trusted bool `json:"trusted"`
	// By is the entry that trusts or blocks it.
	By string `json:"by,omitempty"`
	// Via says what the entry is about: [ServerName] trusts the registry's
	// description, anything else only the package. In the latter case nothing of
	// the description may be used but what the package is, and the version is the
	// newest that its package manager has.
	Via registry.Kind `json:"via,omitempty"`
	// Imitates is whom it imitates, where that can be told.
	Imitates string  `json:"imitates,omitempty"`
	Checks   []Check `json:"checks"`
}

// Reason is why the first gate failed, or why all held.
func (d *Decision) Reason() string {
	for _, c := range d.Checks {
		if c.Gate == d.Gate {
			return c.Reason
		}
	}
	return fmt.Sprintf("%s trusts it, it was named exactly, and installing was asked for", d.By)
}

// Decide looks at all gates. It is a pure function of its arguments.
func (p *Policy) Decide(c *Candidate, confidence Confidence, setting Setting) Decision {
	d := Decision{}
	check := func(gate Gate, passed bool, format string, args ...any) {
		if !passed && d.Gate == "" {
			d.Gate = gate
		}
		d.Checks = append(d.Checks, Check{gate, passed, fmt.Sprintf(format, args...)})
	}

	if p.Problem != "" {
		check(GateFile, false, "nothing is trusted, since the trust file cannot be used: %s", p.Problem)
	}
	switch c.Status {
	case registry.Deleted:
		check(GateStatus, false, "the registry has deleted it%s", saying(c.StatusMessage))
	case registry.Deprecated:
		check(GateStatus, true, "the registry calls it deprecated%s", saying(c.StatusMessage))
	default: // nothing is said
	}
	if by := p.blocked(c); by != nil {
		d.By = by.Text
		check(GateBlocked, false, "the trust file blocks it: %s", by.Text)
	}
	for _, n := range c.names() {
		if im := p.imitation(n.kind, n.name); im != nil {
			of := "no name of a package or server is like that"
			if im.Of != "" {
				of, d.Imitates = "it imitates "+im.Of, im.Of
			}
			check(GateImitation, false, "%s is not what it seems: %s (%s)", quote(im.Name), of, im.How)
		}
	}
	by, via := p.trusts(c)
	switch {
	case by == nil || p.Problem != "":
		check(GateNamespace, false, "the trust file does not trust %s%s", c, trustIt(c))
	default:
		d.Via = via
		if d.By == "" {
			d.By = by.Text
		}
		check(GateNamespace, true, "the trust file trusts it: %s", by.Text)
		if via != ServerName && len(c.Extras) > 0 {
			check(GateEntry, false, "the package is trusted, but its description in the registry fixes more than that, and %s is not trusted: %s", c.Server, strings.Join(c.Extras, "; "))
		}
	}
	d.Trusted = d.Gate == ""

	least := max(p.Threshold, Threshold)
	why := confidence.Why
	if why != "" {
		why = " (" + why + ")"
	}
	switch {
	case !(confidence.Value >= least && confidence.Value <= 1): // in this way NaN does not pass
		check(GateConfidence, false, "the confidence is %.2f and must be %.2f%s; name the package or server exactly", confidence.Value, least, why)
	case confidence.Exact == "" || !c.isNamed(confidence.Exact):
		check(GateConfidence, false, "the intent does not name it exactly")
	default:
		check(GateConfidence, true, "the confidence is %.2f%s", confidence.Value, why)
	}
	switch setting {
	case Asked:
		check(GateSetting, true, "installing was asked for")
	case NotAsked:
		check(GateSetting, false, "installing was not asked for (autoProvision is false)")
	default:
		check(GateSetting, false, "this client may not install servers")
	}
	d.Allowed = d.Gate == ""
	return d
}

func saying(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

type kindName struct {
	kind registry.Kind
	name string
}

// names are all names that a candidate goes by.
func (c *Candidate) names() []kindName {
	var list []kindName
	if c.Package != "" {
		list = append(list, kindName{c.Kind, c.Package})
	}
	if c.Server != "" {
		list = append(list, kindName{ServerName, c.Server})
	}
	return list
}

func (c *Candidate) isNamed(name string) bool {
	return name != "" && (name == c.Package || name == c.Server)
}

// TrustEntry is the narrowest entry of the trust file that opens a gate for it; "": none does.
func (c *Candidate) TrustEntry(gate Gate) string {
	text := string(c.Kind) + ":" + c.Package
	switch {
	case gate == GateEntry && c.Server != "":
		text = string(ServerName) + ":" + c.Server
	case c.Kind == registry.NPM:
		text = c.Package
	}
	if e, err := ParseEntry(text); err != nil || e.All || len(text) > maxTold {
		return ""
	}
	return text
}

// maxTold bounds an entry in a text, in bytes.
const maxTold = 200

// trustIt says behind a text how a candidate is trusted.
func trustIt(c *Candidate) string {
	entry := c.TrustEntry(GateNamespace)
	if entry == "" {
		return ""
	}
	return "; metamcp trust add " + messages.ShellWord(entry) + " does that for one that you know"
}

// String is what it is, for people.
func (c *Candidate) String() string {
	text := strings.Trim(quote(string(c.Kind)+":"+c.Package), `"`)
	if c.Server != "" {
		text += " of " + strings.Trim(quote(c.Server), `"`)
	}
	return text
}

// match returns the entry that means exactly that name, an exact one before one
// of a namespace.
func match(entries []Entry, kind registry.Kind, name string) *Entry {
	name, ok := normal(kind, name)
	if !ok {
		return nil
	}
	var space *Entry
	for i := range entries {
		e := &entries[i]
		if !e.matches(kind, name) {
			continue
		}
		if !e.All {
			return e
		}
		if space == nil {
			space = e
		}
	}
	return space
}

// trusts returns the entry that trusts a candidate. The server's own comes
// first, since it trusts more.
func (p *Policy) trusts(c *Candidate) (by *Entry, via registry.Kind) {
	if own := match(p.Trusted, ServerName, c.Server); own != nil {
		return own, ServerName
	}
	return match(p.Trusted, c.Kind, c.Package), c.Kind
}

// blocked returns the entry that blocks a candidate. What looks like a blocked
// name is blocked as well, and one without a kind blocks the name everywhere.
func (p *Policy) blocked(c *Candidate) *Entry {
	for _, n := range c.names() {
		if by := match(p.Blocked, n.kind, n.name); by != nil {
			return by
		}
		if by := alike(p.Blocked, n.kind, n.name); by != nil {
			return by
		}
	}
	return nil
}

// alike returns an entry that looks like the name.
func alike(entries []Entry, kind registry.Kind, name string) *Entry {
	if kind == registry.OCI {
		name = imageBase(name)
	}
	whole, spaces := fold(name), map[string]bool{}
	for i, r := range name {
		if r == '/' {
			spaces[fold(name[:i])] = true
		}
	}
	for i := range entries {
		e := &entries[i]
		if e.explicit && e.Kind != kind {
			continue
		}
		if e.All && spaces[e.folded] || !e.All && whole == e.folded {
			return e
		}
	}
	return nil
}
