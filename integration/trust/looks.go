package trust

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/mtibben/confusables"
	"golang.org/x/text/unicode/norm"

	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/spelling"
)

// Names are judged by their first bytes; none that is genuine is longer.
const maxFolded = 300

// lookAlikes are characters that are taken for others in most typefaces, or put
// in their place. The order matters: pairs come first.
var lookAlikes = strings.NewReplacer(
	"rn", "m", "vv", "w", "cl", "d",
	"0", "o", "1", "l", "i", "l", "|", "l", "!", "l", "3", "e", "4", "a", "5", "s", "$", "s", "7", "t", "8", "b", "9", "g",
)

// fold makes equal what a person may take for equal: look-alikes of all
// scripts, case, separators, doubled letters.
func fold(name string) string {
	if len(name) > maxFolded {
		name = name[:maxFolded]
	}
	name = strings.Map(func(r rune) rune {
		if registry.HiddenAlone(r) || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, name)
	// The table of confusables makes capital I an l, so it comes before the case
	// is dropped as well as after.
	name = strings.ToLower(confusables.Skeleton(norm.NFKC.String(name)))
	name = strings.ToLower(confusables.Skeleton(norm.NFKC.String(name)))
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) || strings.ContainsRune("-_.~ ‐", r) {
			return -1 // marks such as a dot below, and separators
		}
		return r
	}, name)
	name = lookAlikes.Replace(name)
	var b strings.Builder
	last := rune(-1)
	for _, r := range name {
		if r != last {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

// oddCharacters names the first characters that are not plain ASCII, "": there
// are none.
func oddCharacters(text string) string {
	var odd []string
	const enough = 3
	for _, r := range text {
		if r > ' ' && r < 0x7f {
			continue
		}
		if len(odd) == enough {
			odd = append(odd, "…")
			break
		}
		shown := fmt.Sprintf("U+%04X", r)
		if strconv.IsGraphic(r) && !registry.HiddenAlone(r) && r != ' ' {
			shown += " (" + string(r) + ")"
		}
		odd = append(odd, shown)
	}
	if len(odd) == 0 {
		return ""
	}
	return "the characters " + strings.Join(odd, ", ")
}

// near says whether a is b with slips of the finger; short words are too often
// near each other by chance.
func near(a, b string) bool {
	const short, long = 5, 9
	if a == b || min(len(a), len(b)) < short || max(len(a), len(b)) > maxFolded {
		return false
	}
	most := 1
	if len(b) >= long {
		most = 2
	}
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return false
	}
	return spelling.Distance(a, b) <= most
}

// quote shows a name that nobody vouches for, hidden characters as escapes.
func quote(name string) string {
	const longest = 120
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range name {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case registry.HiddenAlone(r) || !strconv.IsGraphic(r):
			fmt.Fprintf(&b, `\u{%X}`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
