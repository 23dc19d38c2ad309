// Package prep is what every embedder does to texts before and to vectors
// after.
package prep

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns the text as valid UTF-8 without white space and control
// characters around it, cut to at most limit bytes; "" where nothing is left to
// embed.
func Text(text string, limit int) string {
	text = strings.TrimFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	})
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.TrimRightFunc(text[:limit], unicode.IsSpace)
}

// Line makes one line of at most so many characters of what somebody else may
// have written, without what cannot be printed.
func Line(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}

// Unit scales the vector to length 1, in place. It returns nil for a vector of
// zeros or without numbers, which has no direction, and an error where a number
// is not finite.
func Unit(vector []float32) ([]float32, error) {
	sum := 0.0
	for i, v := range vector {
		f := float64(v)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("number %d of a vector is %v", i, v)
		}
		sum += f * f
	}
	if sum == 0 {
		return nil, nil
	}
	// The squares of float32 cannot overflow a float64.
	length := math.Sqrt(sum)
	for i, v := range vector {
		vector[i] = float32(float64(v) / length)
	}
	return vector, nil
}

// ErrDimension is the cause of the errors of [Dimension].
var ErrDimension = errors.New("vectors of different dimensions")

// Dimension returns the dimension that all vectors have, but for the nil ones,
// and want, where that is not 0. It returns want where all are nil.
func Dimension(vectors [][]float32, want int) (int, error) {
	for _, v := range vectors {
		if v == nil {
			continue
		}
		if want == 0 {
			want = len(v)
		}
		if len(v) != want {
			return want, fmt.Errorf("%w: one has %d numbers, those before had %d", ErrDimension, len(v), want)
		}
	}
	return want, nil
}
