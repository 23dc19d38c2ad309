package clients

import (
	"fmt"
	"slices"
)

// Borrowed is a server of a client's file, for one run of metamcp.
type Borrowed struct {
	Name string
	From string // the client and its file, for people
	// Text is a configuration with this server alone, as metamcp reads it. It
	// may hold secrets.
	Text []byte
	// Notes are what a person should know of it.
	Notes []string
}

// Borrow returns the servers of the installed clients that metamcp's own
// configuration files do not have, neither by name nor, under another name, with
// the same command. Of two clients' servers with one name the second one gets a
// new name, as with an import. problems are the files that cannot be read; the
// others count all the same. Nothing is written.
func (s *Setup) Borrow(files []string) (servers []Borrowed, problems []string) {
	var list []*known
	own := map[string]bool{}
	for _, file := range files {
		c, _, err := openOwn(file)
		if err != nil {
			continue // whoever reads the configuration says so
		}
		there, _, err := ownEntries(c.found.data)
		if err != nil {
			continue
		}
		for i := range there {
			own[there[i].Name] = true
		}
		list = append(list, s.knownOf(there)...)
	}
	var target string
	if len(files) > 0 {
		target = files[len(files)-1]
	}
	plan := &Plan{}
	where := map[string]string{} // by the client's name, as [known.from] has it
	places := slices.DeleteFunc(s.sources(ImportOptions{}), func(p Place) bool {
		return slices.ContainsFunc(files, func(f string) bool { return SameFile(f, p.Path) })
	})
	for _, p := range places {
		where[p.Name()] = p.Path
	}
	for _, c := range s.importAll(places, &ImportOptions{Target: target}, &list, plan) {
		if c.Status == StatusFailed {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", c.Name, c.File, c.Problem))
		}
	}
	for _, k := range list {
		if k.from == "" || own[k.taken.Name] {
			continue
		}
		text := style{}.render(object{{ownKeys[0], object{{k.name, k.members}}}}, "")
		servers = append(servers, Borrowed{Name: k.name, From: k.from + " (" + where[k.from] + ")", Text: []byte(text), Notes: k.taken.Notes})
	}
	return servers, problems
}
