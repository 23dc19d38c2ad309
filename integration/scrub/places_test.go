package scrub

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// everyPlace is appendWritten without all that spares work: each known secret,
// keyword and shape is tried at each place.
func everyPlace(s *Set, b []byte, certain bool) (spans []span) {
	var (
		looks      []span
		r          = allRules()
		sc         *scan
		plain      part
		shapesFrom = 0
	)
	for i := range max(0, len(b)-keyLength+1) {
		var longest *secret
		for k := range s.known.all {
			if (k.certain || !certain) && bytes.HasPrefix(b[i:], k.value) && (longest == nil || len(k.value) > len(longest.value)) {
				longest = k
			}
		}
		if longest != nil {
			spans = append(spans, span{i, i + len(longest.value), longest.marker})
		}
		for _, words := range r.words {
			for j := range words {
				w := &words[j]
				if start := i - w.rare; start >= 0 && hasPrefixFold(b[start:], w.text) {
					looks, sc = sc.word(looks, b, r, w, start, &plain)
				}
			}
		}
		if i < shapesFrom {
			continue
		}
		if found, ok := shapeAt(b, i, keyOf(b[i:])); ok {
			looks, shapesFrom = append(looks, found), found.end
		}
	}
	looks = sc.end(looks, b, r)
	if certain {
		looks = withoutExamples(looks, b)
	}
	return append(spans, looks...)
}

// What is passed over has no secret: the search finds the same as one that looks
// at every place.
func TestNothingIsPassedOver(t *testing.T) {
	s := New([]*messages.ServerSpec{{Env: []string{"API_KEY=hunter-2-hunter-2", "OTHER_TOKEN=hunter-2", "DB_PASSWORD=Qx7.correct-horse"}}})
	const size = 6000
	var pieces [][]byte
	for k := range s.known.all {
		pieces = append(pieces, k.value)
	}
	for _, sh := range shapes {
		pieces = append(pieces, append([]byte(sh.prefix), "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0"...))
	}
	for _, words := range allRules().words {
		for _, w := range words {
			pieces = append(pieces, []byte(w.text), bytes.ToUpper([]byte(w.text)), append([]byte(w.text), ` = "x7Kp2mQ9vR4tY8wZ1nB5cD3fG6hJ0aLs"`...))
		}
	}
	slices.SortFunc(pieces, bytes.Compare)
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	texts := ordinary(t)
	for _, kind := range slices.Sorted(maps.Keys(texts)) {
		text := bytes.Clone(texts[kind][:min(size, len(texts[kind]))])
		for range 2 {
			for _, certain := range []bool{false, true} {
				got, want := merge(s.appendWritten(nil, text, certain)), merge(everyPlace(s, text, certain))
				if !slices.Equal(got, want) {
					t.Fatalf("%s: found %v, at every place %v", kind, got, want)
				}
				found += len(want)
			}
			// Once more, with what is looked for all over it, whole or cut.
			for range size / 60 {
				piece := pieces[random.IntN(len(pieces))]
				copy(text[random.IntN(len(text)):], piece[random.IntN(2)*random.IntN(len(piece)):])
			}
		}
	}
	if found == 0 {
		t.Error("the texts have nothing in them")
	}
}
