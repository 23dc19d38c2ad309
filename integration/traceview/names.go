package traceview

import (
	"slices"
	"strings"
)

// edge names what is no actor: the front, a timer, a child's reader.
const edge = "edge"

// serverOf is the server of an actor's path; "" for one that serves none.
func serverOf(actor string) string {
	const at = "/breaker/"
	_, rest, found := strings.Cut(actor, at)
	if !found {
		return ""
	}
	rest, _, _ = strings.Cut(rest, "/")
	if i := strings.LastIndexByte(rest, '~'); i > 0 {
		rest = rest[:i]
	}
	return rest
}

// shortNames gives each actor the shortest end of its path that no other one
// of them has; a bare number is never a name.
func shortNames(actors []string) map[string]string {
	short := make(map[string]string, len(actors))
	length := make(map[string]int, len(actors))
	for _, a := range actors {
		length[a] = 1
	}
	for range maxParents {
		taken := map[string]int{}
		for _, a := range actors {
			short[a] = suffix(a, length[a])
			taken[short[a]]++
		}
		again := false
		for _, a := range actors {
			if taken[short[a]] > 1 && short[a] != a && a != "" {
				length[a]++
				again = true
			}
		}
		if !again {
			break
		}
	}
	return short
}

// suffix is the last n parts of a path, one more where that begins with a
// number.
func suffix(path string, n int) string {
	if path == "" {
		return edge
	}
	parts := strings.Split(path, "/")
	at := max(len(parts)-n, 0)
	for at > 0 && strings.Trim(parts[at], "0123456789") == "" {
		at--
	}
	return strings.Join(parts[at:], "/")
}

// actorsOf lists the actors of records: edge first, where something came from
// there, the others as they first appear.
func actorsOf(records []*Record) []string {
	seen := map[string]bool{}
	var list []string
	add := func(a string) {
		if !seen[a] {
			seen[a] = true
			list = append(list, a)
		}
	}
	edges := false
	for _, r := range records {
		if r.To == "" || r.From == "" && r.Message() {
			edges = true
		}
		if r.From != "" && r.Message() {
			add(r.From)
		}
		if r.To != "" {
			add(r.To)
		}
	}
	if edges || len(list) == 0 {
		list = slices.Insert(list, 0, "")
	}
	return list
}

// comparePaths orders paths so that what is below an actor follows it.
func comparePaths(x, y string) int {
	return slices.Compare(strings.Split(x, "/"), strings.Split(y, "/"))
}
