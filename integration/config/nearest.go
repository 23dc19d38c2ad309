package config

import "strings"

// nearest returns the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	const longest = 64 // beyond it nothing of ours could be meant
	if name == "" || len(name) > longest {
		return ""
	}
	lower := strings.ToLower(name)
	best, bestDistance := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		if d := editDistance(lower, strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// suggestion is the hint that goes with an unknown name.
func suggestion(name string, candidates []string) string {
	if c := nearest(name, candidates); c != "" {
		return "did you mean " + c + "?"
	}
	return ""
}

// editDistance counts insertions, deletions, changes and swaps of neighbours
// between a and b, in bytes.
func editDistance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := row[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			next[j] = min(row[j]+1, next[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
