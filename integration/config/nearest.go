package config

import (
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/integration/spelling"
)

// nearest returns the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	const longest = 64 // beyond it nothing of ours could be meant
	if name == "" || len(name) > longest {
		return ""
	}
	lower := strings.ToLower(name)
	best, bestDistance := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		if d := spelling.Distance(lower, strings.ToLower(c)); d < bestDistance {
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

// elsewhere suggests the setting that has a name in another group than that of prefix, in
// which it was written; "": none has, or more than one.
func elsewhere(prefix, name string) string {
	var found []string
	for i := range keyTable {
		path := keyTable[i].Path
		dot := strings.LastIndexByte(path, '.')
		if strings.EqualFold(path[dot+1:], name) && path[:max(dot, 0)] != prefix {
			found = append(found, path)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return "did you mean metamcp." + found[0] + "?"
}

// misplaced says whether a member of a file looks like settings of ours that belong
// into "metamcp". Names that other programs may have too do not count by themselves.
func misplaced(name string, v *hujson.Value) bool {
	const telling = 8 // letters, of a name that is hardly anybody else's
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return keyIndex[name] != nil && len(name) >= telling
	}
	return slices.ContainsFunc(obj.Members, func(m hujson.ObjectMember) bool { return keyIndex[name+"."+memberName(&m)] != nil })
}
