package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
)

// additionNeed is a variable that a server reads.
type additionNeed struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Required    bool   `json:"required"`
	Secret      bool   `json:"secret"`
	// Set says that it is in the entry and has a value in this environment.
	Set bool `json:"set"`
}

// refuseSecrets keeps secrets out of the file that nobody said belong there.
func (f *addFlags) refuseSecrets(n *clients.NewServer) error {
	found := n.PlainSecrets()
	if len(found) == 0 || f.plain {
		return nil
	}
	p := found[0]
	how := "write ${NAME} in its place (in single quotes) and set the variable NAME where metamcp is started"
	if p.Where == "env" {
		how = fmt.Sprintf("write --env %[1]s alone, which stands for ${%[1]s}, and set that variable where metamcp is started", p.Name)
	}
	return usageError{fmt.Errorf("%s of %s looks like a secret, and secrets do not belong into the file: %s; or keep it with metamcp secrets set NAME and write ${secret:NAME}; --plain writes it all the same", p, n.Name, how)}
}

// unsetNeeds are the variables that an entry names and that are not set here.
func unsetNeeds(n *clients.NewServer) []additionNeed {
	texts := append([]string{n.Command, n.URL, n.Cwd}, n.Args...)
	for _, m := range []map[string]string{n.Env, n.Headers} {
		texts = slices.AppendSeq(texts, maps.Values(m))
	}
	var names []string
	for _, t := range texts {
		for _, m := range reference.FindAllStringSubmatch(t, -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	var needs []additionNeed
	for _, name := range slices.Compact(names) {
		if _, set := os.LookupEnv(name); !set {
			needs = append(needs, additionNeed{Name: name, Required: true})
		}
	}
	return needs
}

// missingHere says why the server of an entry for that file cannot be started here; "": it
// can, or nothing can be said before what it names is set.
func missingHere(n *clients.NewServer, file string) string {
	if n.Command == "" {
		return ""
	}
	// No state folder: a secret is not worth asking a keyring for this.
	spec, err := config.One(config.Sources{}, &config.Config{}, n.Name, map[string]any{"command": n.Command, "args": n.Args, "env": n.Env, "cwd": n.Cwd})
	if err != nil || spec.Err != nil {
		return ""
	}
	spec.Source = file
	_, why := doctor.Missing(spec)
	return why
}

// isSet reports whether an entry gives a variable a value that is there.
func isSet(env map[string]string, name string) bool {
	value, ok := env[name]
	for _, m := range reference.FindAllStringSubmatch(value, -1) {
		if _, set := os.LookupEnv(m[1]); !set {
			return false
		}
	}
	return ok
}
