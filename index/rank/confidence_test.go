package rank

import (
	"math"
	"testing"
)

func TestConfidence(t *testing.T) {
	last := -1.0
	for _, strong := range []float64{-1, 0, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2} {
		for _, alike := range []float64{-5, 0, 3, 50} {
			for _, c := range []float64{confidence(strong, alike, false), confidence(strong, alike, true)} {
				if !(c >= 0 && c <= 1) {
					t.Errorf("%v of %v, %v", c, strong, alike)
				}
			}
		}
		c := confidence(strong, 3, true)
		if c < last {
			t.Errorf("%v after %v", c, last)
		}
		last = c
	}
	if c := confidence(math.Inf(1), math.Inf(1), true); !(c > 0.9 && c <= 1) {
		t.Errorf("%v", c)
	}
}

// Where few documents may be found, the spread of a handful of cosines does
// not make a sure hit unsure.
func TestVectorsOfFewDocumentsDoNotUnsettle(t *testing.T) {
	ix := build(shop)
	rows := make([][]float32, len(shop))
	for i := range rows {
		rows[i] = []float32{float32(math.Cos(float64(i))), float32(math.Sin(float64(i)))}
	}
	q := Query{Text: "list certificates", Allowed: func(d int) bool { return shop[d].Server == "vault" }}
	plain := ix.Search(q)
	q.Docs, q.Vectors = setOf(rows), [][]float32{{1, 0}}
	hybrid := ix.Search(q)
	if plain[0].Score < 0.8 || hybrid[0].Doc != plain[0].Doc || hybrid[0].Score < 0.8 {
		t.Errorf("%+v, with vectors %+v", plain[0], hybrid[0])
	}
}
