package doctor

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/bearer"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/messages"
)

// httpChecks look at how hosts serve clients over HTTP. A host refuses to start
// with most of what is found here, or lets nobody in.
func (p *Patient) httpChecks() []Check {
	st := &p.Config.Settings.HTTP
	check := func(id string, run func(ctx context.Context) []Result) Check {
		return Check{ID: id, Group: GroupHosts, Run: run}
	}
	return []Check{
		check("http.address", func(ctx context.Context) []Result { return []Result{p.httpAddress(ctx, st)} }),
		check("http.tokens", func(context.Context) []Result { return []Result{p.httpTokens(st)} }),
		check("http.tls", func(context.Context) []Result { return httpTLS(st) }),
		check("http.names", func(context.Context) []Result { return httpNames(st) }),
	}
}

const notServed = "A host with this address does not start: metamcp host says the same and ends."

// httpAddress tries whether a host can listen where it is told to.
func (p *Patient) httpAddress(ctx context.Context, st *config.HTTPSettings) Result {
	if st.Addr == "" {
		return Result{Status: Skipped, Found: "http.address is not set: a host serves clients over HTTP only with --http"}
	}
	addr, _, err := front.CheckHTTPAddr(st.Addr)
	if err != nil {
		return Result{Status: Fail, Found: "http.address: " + err.Error(), Why: notServed, Fix: "Set http.address to a port, such as :8090, or an address with one."}
	}
	if name := p.servesAt(addr); name != "" {
		return Result{Status: OK, Found: fmt.Sprintf("the host %s serves at %s", name, addr)}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return Result{
			Status: Fail, Found: fmt.Sprintf("nobody can listen on %s: %v", addr, err), Why: notServed,
			Fix: "Choose another port, such as http.address \":8091\", or end what has this one; lsof -i :PORT names it. Ports below 1024 are for root alone on many systems.",
		}
	}
	_ = l.Close() // it was only tried
	return Result{Status: OK, Found: addr + " is free"}
}

// servesAt is the living host that serves at an address; "": none.
func (p *Patient) servesAt(addr string) string {
	if p.Config.Settings.StateDir == "" {
		return ""
	}
	found, err := readHosts(p.Config.Settings.StateDir)
	if err != nil {
		return "" // which hosts.running says
	}
	for _, h := range found.hosts {
		u, err := url.Parse(h.HTTP)
		if err != nil || h.HTTP == "" || u.Host != addr {
			continue
		}
		if c, err := control.Dial(h); err == nil {
			c.Close()
			return h.Name
		}
	}
	return ""
}

// httpTokens looks who gets in.
func (p *Patient) httpTokens(st *config.HTTPSettings) Result {
	store := bearer.New(p.Config.Settings.StateDir, nil)
	tokens, err := store.List()
	if err != nil {
		return Result{
			Status: Fail, Found: err.Error(), Why: "A host that serves over HTTP lets nobody in, or does not start.",
			Fix: "chmod 600 " + messages.ShellWord(store.Path()) + "   where others can read it; where it is damaged, move it away and make the tokens anew: metamcp token add NAME.",
		}
	}
	expired := 0
	for _, t := range tokens {
		if t.Expired(time.Now()) {
			expired++
		}
	}
	addr, loopback, err := front.CheckHTTPAddr(st.Addr)
	served := err == nil && st.Addr != ""
	switch {
	case len(tokens) > 0 && expired == len(tokens):
		return Result{
			Status: Warn, Found: fmt.Sprintf("all of %s have expired", count(len(tokens), "token")), Why: "As long as there are tokens, who has none that is valid is not let in.",
			Fix: "metamcp token add NAME   for each client, or metamcp token remove NAME for all of them.",
		}
	case len(tokens) > 0:
		return Result{Status: OK, Found: fmt.Sprintf("%s, %d of them expired", count(len(tokens), "token"), expired)}
	case served && !loopback && st.ClientCA == "":
		return Result{
			Status: Fail, Found: addr + " is reached from other machines, and clients prove nothing", Why: notServed,
			Fix: "metamcp token add NAME   for each client, or set http.clientCa, or listen on a loopback address such as :8090.",
		}
	case served && loopback && st.ClientCA == "":
		return Result{Status: OK, Found: "there are no tokens: every program on this machine gets in", Details: []string{"metamcp token add NAME   makes one, and from then on who has none is refused."}}
	case served:
		return Result{Status: OK, Found: "there are no tokens; clients need a certificate"}
	}
	return Result{Status: Skipped, Found: "there are no tokens"}
}

// httpNames tells the hosts and origins that are allowed. A wrong one is a problem
// of the configuration.
func httpNames(st *config.HTTPSettings) []Result {
	found := "clients call a host by its addresses and localhost"
	if len(st.Hosts) > 0 {
		found += ", and as " + strings.Join(st.Hosts, ", ")
	}
	switch {
	case len(st.Origins) > 0:
		found += "; pages of " + strings.Join(st.Origins, ", ") + " may talk to it"
	case st.Addr == "" && len(st.Hosts) == 0:
		return []Result{{Status: Skipped, Found: "no names and no origins are allowed beside the own ones"}}
	}
	return []Result{{Status: OK, Found: found}}
}

// privateFile says what is wrong with the modes of a file that holds a key.
func privateFile(path string) (mode os.FileMode, open bool) {
	info, err := os.Stat(filepath.Clean(path))
	if err != nil {
		return 0, false // which reading it tells
	}
	return info.Mode().Perm(), regular.Others(info) != 0
}
