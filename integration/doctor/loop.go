package doctor

import (
	"fmt"
	"strings"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// MayStart reports whether a server was asked for and is not metamcp with the
// same configuration, which would start itself.
func (p *Patient) MayStart(server string) bool {
	spec := p.Config.Server(server)
	return spec != nil && p.wanted(server) && (!p.isHost(spec) || p.sharedFile(spec) == "")
}

// isHost reports whether an entry starts metamcp as a server.
func (p *Patient) isHost(spec *messages.ServerSpec) bool {
	if spec.Transport != messages.TransportStdio {
		return false
	}
	resolved, err := lookup(spec)
	if err != nil {
		resolved = "" // its name may still say it
	}
	return p.isMetamcp(spec.Command, resolved) && clients.Serves(spec.Args)
}

// loops finds metamcp behind metamcp.
func (p *Patient) loops() []Result {
	var results []Result
	for _, spec := range p.servers() {
		if !p.isHost(spec) {
			continue
		}
		r := Result{
			Subject: spec.Name, Status: Warn, Found: spec.Source + ": metamcp stands behind metamcp, with another configuration",
			Why: "Its tools are then found and called through two gateways, which costs time and hides what is behind.",
			Fix: "Put its servers into this configuration, or keep it if that is meant.",
		}
		if file := p.sharedFile(spec); file != "" {
			r.Status, r.Found = Fail, fmt.Sprintf("%s: this entry starts metamcp with the configuration in which it stands (%s)", spec.Source, file)
			r.Why = "Each metamcp would start the next one, without end, so the one that the entry starts refuses to."
			r.Fix = config.LoopAdvice(spec.Name, file)
		}
		results = append(results, r)
	}
	if results == nil {
		return []Result{{Status: OK, Found: "no entry starts metamcp itself"}}
	}
	return results
}

// sharedFile is a file of this configuration that the metamcp of an entry would
// read too; "": none.
func (p *Patient) sharedFile(spec *messages.ServerSpec) string {
	cwd := p.Cwd
	if spec.Cwd != "" {
		cwd = p.absolute(spec.Cwd)
	}
	var files []string
	for i, a := range spec.Args {
		switch value, ok := strings.CutPrefix(a, "--config="); {
		case ok:
			files = append(files, value)
		case (a == "--config" || a == "-c") && i+1 < len(spec.Args):
			files = append(files, spec.Args[i+1])
		}
	}
	env := append([]string{}, spec.Env...) // not nil, which would be this process's
	files, _ = config.FilesOf(config.Sources{Files: files, Home: p.Home, Cwd: cwd, Environ: env})
	for _, f := range files {
		for _, own := range p.Config.Files {
			if clients.SameFile(f, own) {
				return own
			}
		}
	}
	return ""
}
