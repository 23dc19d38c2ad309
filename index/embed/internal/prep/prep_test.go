package prep_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/index/embed/internal/prep"
)

func TestText(t *testing.T) {
	tests := []struct {
		name, text string
		limit      int
		want       string
	}{
		{"as it is", "a tool", 100, "a tool"},
		{"around", " \n\x00a tool\u2029", 100, "a tool"},
		{"blank", " \t\x1b", 100, ""},
		{"cut", "abcdef", 3, "abc"},
		{"cut before a space", "ab cdef", 3, "ab"},
		{"cut within a character", "a世界", 3, "a"},
		{"nothing fits", "世", 2, ""},
		{"not UTF-8", "a\xffb", 100, "a\uFFFDb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := prep.Text(tt.text, tt.limit); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnit(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, v := range [][]float32{{3, 4}, {math.MaxFloat32, math.MaxFloat32}, {math.SmallestNonzeroFloat32, 0}, {-1}} {
		got, err := prep.Unit(v)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, f := range got {
			sum += float64(f) * float64(f)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("%v has the length² %v", got, sum)
		}
	}
	for _, v := range [][]float32{nil, {}, {0, 0}} {
		if got, err := prep.Unit(v); got != nil || err != nil {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	for _, v := range [][]float32{{nan, 1}, {1, inf}} {
		if _, err := prep.Unit(v); err == nil || !strings.Contains(err.Error(), "number") {
			t.Errorf("%v: %v", v, err)
		}
	}
}

func TestDimension(t *testing.T) {
	tests := []struct {
		name    string
		vectors [][]float32
		want    int
		got     int
		bad     bool
	}{
		{"none", nil, 0, 0, false},
		{"all nil", [][]float32{nil, nil}, 3, 3, false},
		{"first", [][]float32{nil, {1, 2}, {3, 4}}, 0, 2, false},
		{"mixed", [][]float32{{1, 2}, {3}}, 0, 2, true},
		{"another", [][]float32{{1, 2}}, 3, 3, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := prep.Dimension(tt.vectors, tt.want)
			if got != tt.got || errors.Is(err, prep.ErrDimension) != tt.bad {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
}
