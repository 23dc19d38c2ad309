package metamcp

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/integration/registry"
)

// Orders returns the kinds of text in what a server says of itself that read like
// orders to a model, sorted; nil: none was seen.
func Orders(s *registry.Server) []string { return ordersIn([]any{s, s.StatusMessage}) }

func ordersIn(what any) []string {
	text, err := json.Marshal(what)
	if err != nil { // it came as JSON
		return nil
	}
	return pins.Signs(text)
}

// readable is a text in which authors of packages have a say, without what nobody sees
// of it, or, where it reads like an order to a model, what stands in its place.
func readable(text string) string {
	plain, _ := index.Plain(text) // the colours of a package manager are no orders
	if len(ordersIn(plain)) > 0 {
		return "What its authors say of it reads like orders to a model, and was left out."
	}
	return plain
}

func readableAll(texts []string) (list []string) {
	for _, text := range texts {
		list = append(list, readable(text))
	}
	return list
}

// ordersLeftOut is the note on what [withoutOrders] leaves out whole.
const ordersLeftOut = "A server, or a way to get one, was left out, since names or values of it read like orders to a model."

// withoutOrders returns a server without its texts where any of them reads like
// an order to a model: nobody knows who wrote them. Choices and defaults go that do so
// by themselves. What cannot go, such as names and fixed values, takes its package or
// remote with it; that of the server, or a version, takes all. The names of servers and
// packages that are known stay: who asked has said them. signs are the kinds; nil: it is
// returned as it is.
func withoutOrders(s *registry.Server, known func(name string) bool) (told *registry.Server, signs []string) {
	if signs = Orders(s); len(signs) == 0 {
		return s, nil
	}
	own := *s
	own.Title, own.Description, own.StatusMessage, own.WebsiteURL, own.Repository = "", "", "", "", nil
	own.Packages, own.Remotes = nil, nil
	orderly := func(name string) bool { return known(name) || len(ordersIn(name)) == 0 }
	if !orderly(s.Name) || len(ordersIn(s.Version)) > 0 {
		return &own, signs
	}
	for _, pkg := range s.Packages {
		pkg.Transport = transportWithout(pkg.Transport)
		pkg.RuntimeArgs, pkg.PackageArgs = argumentsWithout(pkg.RuntimeArgs), argumentsWithout(pkg.PackageArgs)
		pkg.Environment = pairsWithout(pkg.Environment)
		rest := pkg
		rest.Identifier = ""
		if orderly(pkg.Identifier) && len(ordersIn(rest)) == 0 {
			own.Packages = append(own.Packages, pkg)
		}
	}
	for _, remote := range s.Remotes {
		if remote = transportWithout(remote); len(ordersIn(remote)) == 0 {
			own.Remotes = append(own.Remotes, remote)
		}
	}
	return &own, signs
}

func transportWithout(t registry.Transport) registry.Transport {
	t.Headers, t.Variables = pairsWithout(t.Headers), variablesWithout(t.Variables)
	return t
}

func argumentsWithout(list []registry.Argument) []registry.Argument {
	list = slices.Clone(list)
	for i := range list {
		list[i].Input = inputWithout(&list[i].Input)
		if len(ordersIn(list[i].ValueHint)) > 0 {
			list[i].ValueHint = "argument " + strconv.Itoa(i+1) // as one without a hint is called
		}
	}
	return list
}

func pairsWithout(list []registry.KeyValue) []registry.KeyValue {
	list = slices.Clone(list)
	for i := range list {
		list[i].Input = inputWithout(&list[i].Input)
	}
	return list
}

func variablesWithout(all map[string]registry.Input) map[string]registry.Input {
	if all == nil {
		return nil
	}
	own := make(map[string]registry.Input, len(all))
	for name, in := range all {
		own[name] = inputWithout(&in)
	}
	return own
}

func inputWithout(in *registry.Input) registry.Input {
	own := *in
	own.Description, own.Placeholder = "", ""
	own.Choices = slices.DeleteFunc(slices.Clone(in.Choices), func(choice string) bool { return len(ordersIn(choice)) > 0 })
	if len(ordersIn(in.Default)) > 0 {
		own.Default = ""
	}
	own.Variables = variablesWithout(in.Variables)
	return own
}
