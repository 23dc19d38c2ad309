package clients

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/messages"
)

// ImportOptions say what [Setup.PlanImport] is to do.
type ImportOptions struct {
	Clients []*Client // empty: those that are installed, or have a file in the folder that is not metamcp's too
	Project bool      // the working folder's files, and not the user's
	Target  string    // the configuration that gets the servers; absolute
	Remove  bool      // what was taken goes from the clients' files
}

// What becomes of a server that a client lists.
const (
	TakenNew     = "add"
	TakenDouble  = "double"  // the configuration has it, or another client has
	TakenSkipped = "skipped" // it stays where it is; Reason says why
)

// Taken is one server of a client's file.
type Taken struct {
	Client string   `json:"client"`
	Name   string   `json:"name"`         // there
	As     string   `json:"as,omitempty"` // in metamcp's configuration
	Status string   `json:"status"`
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// Plan is what an import would do.
type Plan struct {
	Servers []*Taken  `json:"servers"`
	Changes []*Change `json:"changes"` // metamcp's own configuration first
	Notes   []string  `json:"notes,omitempty"`
}

// known is a server that the configuration has, or will have.
type known struct {
	server
	from  string // the client that it comes from; "": it was there
	taken *Taken
}

// PlanImport says what has to be done so that metamcp's configuration has the
// servers of the clients. Files that cannot be read are failed changes; an
// error means that the configuration itself cannot be read.
func (s *Setup) PlanImport(o ImportOptions) (*Plan, error) {
	target := &Change{Client: own.ID, Name: own.Name, File: o.Target, client: own}
	var err error
	if target.found, err = readOwn(o.Target); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Target, err)
	}
	there, path, err := ownEntries(target.found.data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; correct it by hand, nothing was changed", o.Target, err)
	}
	list := s.knownOf(there)
	plan := &Plan{Servers: []*Taken{}}
	changes := s.importAll(s.sources(o), &o, &list, plan)
	s.propose(target, path, list)
	plan.Changes = append([]*Change{target}, changes...)
	return plan, nil
}

// knownOf are the servers that a configuration has.
func (s *Setup) knownOf(there []Entry) []*known {
	list := make([]*known, len(there))
	for i := range there {
		f := &filler{refs: refShell, sys: &s.System}
		list[i] = &known{server: translate(own, &there[i], "", f)}
		list[i].name = there[i].Name // also of one that is skipped
	}
	return list
}

// sources are the files that servers are taken from.
func (s *Setup) sources(o ImportOptions) []Place {
	list := o.Clients
	if len(list) == 0 && o.Project {
		own := s.path("{cwd}/.mcp.json") // it is metamcp's too: alone it is no sign of a client
		list = slices.DeleteFunc(All(), func(c *Client) bool {
			at := s.choose(c.project)
			return !s.Installed(c) && (at == own || !exists(at))
		})
	}
	var places []Place
	for _, p := range s.chosen(list, o.Project) {
		if p.Path != "" {
			places = append(places, p)
		}
		if o.Project && p.Client.byFolder {
			places = append(places, Place{Client: p.Client, Path: s.choose(p.Client.user), Project: true, folder: s.Cwd})
		}
	}
	return places
}

// ownEntries reads metamcp's own configuration, which may have VS Code's form.
func ownEntries(raw []byte) ([]Entry, []string, error) {
	d, err := parseJSON(raw)
	if err != nil {
		return nil, nil, err
	}
	path := []string{"mcpServers"}
	if find(&d.root, path[0]) == nil && find(&d.root, "servers") != nil {
		path[0] = "servers"
	}
	all, err := d.entries(path, "")
	return all, path, err
}

// propose adds the new servers to metamcp's configuration.
func (s *Setup) propose(target *Change, path []string, list []*known) {
	var added object
	for _, k := range list {
		if k.from == "" {
			continue
		}
		added = append(added, member{k.name, k.members})
		login, _ := k.members.get("oauth").(object)
		if k.members.get("env") != nil || k.members.get("headers") != nil || login.get("clientSecret") != nil {
			target.found.private = true
		}
	}
	if len(added) == 0 {
		target.Status = StatusPresent
		return
	}
	after, err := addJSON(target.found.data, path, added)
	if err != nil {
		target.fail("%v", err)
		return
	}
	target.propose(after, StatusAdd)
	if info := target.found.info; target.Pending() && target.found.private && info != nil && info.Mode().Perm()&0o077 != 0 && s.GOOS != "windows" {
		target.note("only you will be able to read it, since it gets the values of variables or headers, or the secret of a login")
	}
}

// source is a client's file that servers are taken from.
type source struct {
	place   Place
	change  *Change
	path    []string // of its servers
	offered []*offer
	gone    []string // what metamcp's configuration has then
}

// offer is one of its servers that can be taken.
type offer struct {
	server
	taken *Taken
}

// importAll takes the servers of files. It returns a change for each that cannot be
// read, or is to be changed.
func (s *Setup) importAll(places []Place, o *ImportOptions, list *[]*known, plan *Plan) []*Change {
	sources := make([]*source, len(places))
	for i, p := range places {
		sources[i] = s.look(p, o, plan)
	}
	// Those that are turned on come first: a double that is not would end their work.
	for _, off := range []bool{false, true} {
		for _, src := range sources {
			for _, of := range src.offered {
				if of.off() == off && of.take(src.place, o, list) {
					src.gone = append(src.gone, of.name)
				}
			}
		}
	}
	var changes []*Change
	for _, src := range sources {
		src.remove(o)
		if src.change.Status != "" {
			changes = append(changes, src.change)
		}
	}
	return changes
}

// look reads one file. Its change has a status where nothing can be taken from it.
func (s *Setup) look(p Place, o *ImportOptions, plan *Plan) *source {
	c := s.open(p)
	src := &source{place: p, change: c}
	if c.Status == StatusFailed {
		return src
	}
	if SameFile(p.Path, o.Target) {
		c.Status = StatusPresent
		c.note("it is metamcp's own configuration")
		return src
	}
	entries, path, err := p.entries(c.found.data)
	if err != nil {
		c.fail("%v; correct it by hand, nothing was taken from it", err)
		return src
	}
	src.path = path
	if p.Client.byFolder && !p.Project {
		if n := len(projectEntries(c.found.data, p.Client.Key)); n > 0 {
			plan.Notes = append(plan.Notes, fmt.Sprintf("%s keeps %d more for single folders: run metamcp import --project there", p.Name(), n))
		}
	}
	inputs := inputsOf(c.found.data, p.Client)
	for i := range entries {
		f := &filler{refs: p.Client.refs, sys: &s.System, inputs: inputs}
		if p.Project {
			f.project = s.Cwd
		}
		sv := translate(p.Client, &entries[i], s.Executable, f)
		t := &Taken{Client: p.Client.ID, Name: sv.name, Status: TakenNew, Notes: sv.notes}
		plan.Servers = append(plan.Servers, t)
		if sv.skip != "" {
			t.Status, t.Reason, t.Notes = TakenSkipped, sv.skip, nil
			continue
		}
		src.offered = append(src.offered, &offer{sv, t})
	}
	return src
}

// remove proposes to take out of the file what the configuration has.
func (src *source) remove(o *ImportOptions) {
	c, client := src.change, src.place.Client
	if !o.Remove || len(src.gone) == 0 {
		return
	}
	var after []byte
	var err error
	if client.format == formatTOML {
		after, err = removeTOML(c.found.data, client.Key, src.gone)
	} else {
		after, err = removeJSON(c.found.data, src.path, src.gone)
	}
	if err != nil {
		c.fail("%v", err)
		return
	}
	c.propose(after, StatusRemove)
}

// off reports whether the server is turned off.
func (s *server) off() bool { return s.members.get("disabled") == true }

// take decides about one server; true: the configuration has it then.
func (of *offer) take(p Place, o *ImportOptions, list *[]*known) bool {
	sv, t := &of.server, of.taken
	var turnedOff *known
	for _, k := range *list {
		switch k.covers(sv) {
		case coversAll:
			if k.off() && !sv.off() {
				turnedOff = k // a client's comes later
				continue
			}
			t.Status, t.As, t.Notes = TakenDouble, k.name, nil
			t.Reason = "metamcp's configuration has it"
			if k.from != "" {
				t.Reason = k.from + " has it too"
			}
			return true
		case coversLess:
			if k.from != "" { // the richer one is taken
				t.Status, t.As, t.Reason = TakenDouble, k.name, k.from+" has it too, with fewer variables"
				on := !k.off()
				k.members, k.taken.Notes = sv.members, sv.notes
				if on {
					k.members = slices.DeleteFunc(k.members, func(m member) bool { return m.name == "disabled" })
				}
				return true
			}
		case coversNot:
		}
	}
	if turnedOff != nil {
		t.Status, t.As, t.Reason = TakenSkipped, turnedOff.name, "metamcp's configuration has it, turned off"
		t.Notes = []string{fmt.Sprintf("it is turned on in %s and stays there; metamcp enable %s --config %s turns it on here", p.Name(), messages.ShellWord(turnedOff.name), messages.ShellWord(o.Target))}
		return false
	}
	fit := fittingName(sv.name)
	name := freeName(fit, p.Client.ID, *list)
	switch {
	case name != fit:
		t.Reason = fmt.Sprintf("another server is called %q", fit)
	case fit != sv.name:
		t.Reason = fmt.Sprintf("metamcp gives no server the name %q", sv.name)
	}
	t.As = name
	taken := &known{server: *sv, from: p.Name(), taken: t}
	taken.name = name
	*list = append(*list, taken)
	return true
}

// fittingName is a name that a new entry may have, and as much as can be of the given
// one.
func fittingName(name string) string {
	if CheckServerName(name) == nil {
		return name
	}
	const most = 40 // freeName may add to it
	fit := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, name), "-")
	fit = strings.Trim(fit[:min(len(fit), most)], "-")
	if CheckServerName(fit) != nil {
		return "server"
	}
	return fit
}

// freeName is a name that no other server has.
func freeName(name, client string, list []*known) string {
	taken := func(n string) bool { return slices.ContainsFunc(list, func(k *known) bool { return k.name == n }) }
	if !taken(name) {
		return name
	}
	other := name + "-" + client
	for i := 2; taken(other); i++ {
		other = name + "-" + client + "-" + strconv.Itoa(i)
	}
	return other
}

type cover uint8

const (
	coversNot cover = iota
	coversLess
	coversAll
)

// covers compares two servers: the same command, arguments, folder and address,
// and no variable or header with two values, nor two logins. What differs there may be another
// account, which must not get lost.
func (k *known) covers(other *server) cover {
	if k.skip != "" || k.identity != other.identity || !sameCommand(&k.server, other) {
		return coversNot
	}
	result := coversAll
	for _, holder := range []string{"env", "headers", "oauth"} {
		mine, theirs := pairsOf(k.members.get(holder)), pairsOf(other.members.get(holder))
		for name, value := range theirs {
			switch has, ok := mine[name]; {
			case !ok:
				result = coversLess
			case has != value:
				return coversNot
			}
		}
		// Richer in one and poorer in the other is a server of its own.
		if result == coversLess && slices.ContainsFunc(slices.Collect(maps.Keys(mine)), func(n string) bool { _, ok := theirs[n]; return !ok }) {
			return coversNot
		}
	}
	return result
}

var envScheme = lazyregexp.New(`\$\{env:`)

func sameRefs(s string) string { return envScheme().ReplaceAllString(s, "${") }

// sameCommand reports whether two servers start the same program: a name
// without a folder may be any that has it.
func sameCommand(a, b *server) bool {
	one, _ := a.members.get("command").(string)
	two, _ := b.members.get("command").(string)
	base := func(command string) string {
		return strings.TrimSuffix(filepath.Base(strings.ReplaceAll(command, `\`, "/")), ".exe")
	}
	return one == two || base(one) == base(two) && (base(one) == one || base(two) == two)
}

// identify says what must be equal beside the command.
func (s *server) identify() {
	var parts []string
	for _, name := range []string{"url", "cwd"} {
		text, _ := s.members.get(name).(string)
		parts = append(parts, text)
	}
	args, _ := s.members.get("args").([]string)
	s.identity = sameRefs(strings.Join(append(parts, args...), "\x00"))
}

func pairsOf(value any) map[string]string {
	o, _ := value.(object)
	out := map[string]string{}
	for _, m := range o {
		if s, ok := m.value.(string); ok {
			out[m.name] = sameRefs(s)
		}
	}
	return out
}

// inputsOf are the questions that VS Code asks before it starts a server.
func inputsOf(raw []byte, c *Client) map[string]string {
	if c.refs != refEditor {
		return nil
	}
	d, err := parseJSON(raw)
	if err != nil {
		return nil
	}
	m := find(&d.root, "inputs")
	if m == nil {
		return nil
	}
	var list []struct {
		ID          string `json:"id"`
		Description string `json:"description"`
	}
	if decodeJSON(&m.Value, &list) != nil {
		return nil // of another form: the ids say enough
	}
	out := map[string]string{}
	for _, i := range list {
		out[i.ID] = i.Description
	}
	return out
}
