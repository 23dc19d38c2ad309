package traceview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shownProblems is how many unreadable lines are named; all are counted.
const shownProblems = 5

// maxVersions bounds the newer versions that are told apart.
const maxVersions = 8

// problems is what could not be read.
type problems struct {
	lines    int
	first    []string
	versions map[int]int // records by the newer version that they are of
	later    int         // records of still more versions
	notes    []string
}

func (p *problems) line(source string, number int, what string) {
	p.lines++
	if len(p.first) < shownProblems {
		if source != "" {
			source += " "
		}
		p.first = append(p.first, fmt.Sprintf("%sline %d %s", source, number, what))
	}
}

func (p *problems) newer(version int) {
	if p.versions == nil {
		p.versions = map[int]int{}
	}
	if _, known := p.versions[version]; !known && len(p.versions) == maxVersions {
		p.later++
		return
	}
	p.versions[version]++
}

// tell says all of it in sentences.
func (p *problems) tell() []string {
	var all []string
	if p.lines > 0 {
		list := strings.Join(p.first, ", ")
		if p.lines > len(p.first) {
			list += ", …"
		}
		all = append(all, plural(p.lines, "line")+" could not be read: "+list)
	}
	for _, v := range slices.Sorted(maps.Keys(p.versions)) {
		all = append(all, fmt.Sprintf("%s of version %d, which this metamcp does not know; update it", are(p.versions[v], "record"), v))
	}
	if p.later > 0 {
		all = append(all, are(p.later, "record")+" of still other versions, which this metamcp does not know")
	}
	return append(all, p.notes...)
}

// plural counts things for people.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return plural(n, what) + " are"
}
