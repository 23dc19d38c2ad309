package trust

import (
	"strings"

	"github.com/metamcp/metamcp/integration/registry"
)

// Candidate is one way to get one server.
type Candidate struct {
	// Server is its name in an MCP registry; "" where none vouches for it, as for
	// the built-in list.
	Server string
	// Kind and Package say what would be installed; of a [Remote], Package is its
	// URL.
	Kind    registry.Kind
	Package string
	// Extras is what its description fixes beyond the package: arguments,
	// variables. Whoever wrote that need not be who made the package.
	Extras []string
	// Status is what the registry says of it; "" is [registry.Active].
	Status        registry.Status
	StatusMessage string
}

// Candidates are the ways to get a server, packages first, in its own order.
func Candidates(s *registry.Server) []Candidate {
	var list []Candidate
	name := s.Name
	if _, ok := normal(ServerName, name); !ok {
		name = "" // built in
	}
	for i := range s.Packages {
		p := &s.Packages[i]
		c := Candidate{Server: name, Kind: p.Kind, Package: p.Identifier, Status: s.Status, StatusMessage: s.StatusMessage}
		if name != "" {
			c.Extras = extras(p)
		}
		list = append(list, c)
	}
	for i := range s.Remotes {
		r := &s.Remotes[i]
		list = append(list, Candidate{
			Server: name, Kind: Remote, Package: r.URL, Extras: fixed("header", r.Headers), Status: s.Status, StatusMessage: s.StatusMessage,
		})
	}
	return list
}

const maxExtras = 10

// extras lists what a description fixes.
func extras(p *registry.Package) []string {
	var list []string
	for i := range p.RuntimeArgs {
		a := &p.RuntimeArgs[i]
		list = append(list, "an argument for "+orElse(p.RuntimeHint, "the runtime")+": "+quote(strings.TrimSpace(a.Name+" "+a.Value)))
	}
	for i := range p.PackageArgs {
		if a := &p.PackageArgs[i]; a.Value != "" {
			list = append(list, "an argument: "+quote(strings.TrimSpace(a.Name+" "+a.Value)))
		}
	}
	list = append(list, fixed("variable", p.Environment)...)
	for i := range p.Environment {
		if e := &p.Environment[i]; e.Value == "" && e.Default != "" && Steers(e.Name) {
			list = append(list, "a variable: "+quote(e.Name+"="+e.Default))
		}
	}
	if len(list) > maxExtras {
		list = append(list[:maxExtras], "and more")
	}
	return list
}

func fixed(what string, pairs []registry.KeyValue) []string {
	var list []string
	for i := range pairs {
		if p := &pairs[i]; p.Value != "" {
			list = append(list, "a "+what+": "+quote(p.Name+"="+p.Value))
		}
	}
	return list
}

// Steers says whether a variable decides what code runs or where it comes from,
// so that even a default is no mere proposal.
func Steers(name string) bool {
	name = strings.ToUpper(name)
	for _, prefix := range []string{"LD_", "DYLD_", "NODE_", "NPM_", "PYTHON", "PIP_", "UV_", "GIT_", "DOCKER_", "SSL_", "BUN_", "DENO_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "PATH", "HOME", "SHELL", "BASH_ENV", "ENV", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "REQUESTS_CA_BUNDLE":
		return true
	}
	return false
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
