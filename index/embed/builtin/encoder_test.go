package builtin

import (
	"encoding/binary"
	"math"
	"os"
	"testing"
)

// everyEighth are the texts whose vectors testdata has.
func everyEighth(t testing.TB) []string {
	var out []string
	for i, text := range goldenTexts(t) {
		if i%8 == 0 {
			out = append(out, text)
		}
	}
	return out
}

func goldenVectors(t testing.TB) [][]float32 {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.f32")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float32
	for len(data) > 0 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		out, data = append(out, v), data[4*dim:]
	}
	return out
}

// portableLimit is the number of tokens up to which texts are embedded with
// the portable kernel in tests that have many of them; the race detector makes
// it very slow.
const portableLimit = 12

// withoutAdapt is the encoder as its authors made it.
func withoutAdapt(t testing.TB, k kernel) *model {
	m := testModel(t, k)
	identity := matrix{
		rows: dim, cols: dim,
		panels: make([]int8, dim*dim), scale: make([]float32, dim), bias: make([]float32, dim),
	}
	for i := range dim {
		identity.panels[i/panel*panel*dim+i*panel+i%panel] = 1
		identity.scale[i] = 1
	}
	m.encoder.adapt = identity
	return m
}

// The weights are int8, so vectors differ from those of the original, which
// has float32. That this is all the difference is what the next test shows.
func TestVectorsAreCloseToTheReference(t *testing.T) {
	want := goldenVectors(t)
	texts := everyEighth(t)
	if len(texts) != len(want) || len(texts) < 25 {
		t.Fatalf("%d texts and %d vectors", len(texts), len(want))
	}
	for _, k := range kernels() {
		t.Run(k.name, func(t *testing.T) {
			m := withoutAdapt(t, k)
			w, got := newWorkspace(), make([]float32, dim)
			var sum, count float64
			for i, text := range texts {
				tokens := m.tokenizer.tokens(m.tokenizer.prepare(text))
				if k.name == portableKernel().name && len(tokens) > portableLimit {
					continue
				}
				m.encoder.encode(t.Context(), w, tokens, got)
				cosine := float64(dotGo(got, want[i]))
				if cosine < 0.998 {
					t.Errorf("%q: the cosine is %.5f", text, cosine)
				}
				sum, count = sum+cosine, count+1
			}
			mean := sum / count
			t.Logf("the mean cosine is %.6f", mean)
			if mean < 0.999 {
				t.Errorf("the mean cosine is %.6f", mean)
			}
		})
	}
}

func TestVectorOfATextDoesNotDependOnTheOneBefore(t *testing.T) {
	for _, k := range kernels() {
		t.Run(k.name, func(t *testing.T) {
			m := testModel(t, k)
			used, out := newWorkspace(), make([]float32, dim)
			for i := range used.x {
				used.x[i] = float32(math.NaN())
			}
			for i := range used.wide {
				used.wide[i] = float32(math.Inf(1))
			}
			for _, text := range everyEighth(t)[:4] {
				tokens := m.tokenizer.tokens(m.tokenizer.prepare(text))
				want := make([]float32, dim)
				m.encoder.encode(t.Context(), newWorkspace(), tokens, want)
				m.encoder.encode(t.Context(), used, tokens, out)
				for i := range want {
					if math.Float32bits(out[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%q: number %d is %g in a used workspace and %g in a new one", text, i, out[i], want[i])
					}
				}
			}
		})
	}
}

func TestKernelsAgree(t *testing.T) {
	all := kernels()
	if len(all) == 1 {
		t.Log("this CPU has the portable kernel only")
	}
	reference := testModel(t, all[0])
	w, want, got := newWorkspace(), make([]float32, dim), make([]float32, dim)
	for _, k := range all[1:] {
		m := testModel(t, k)
		for _, text := range everyEighth(t) {
			tokens := m.tokenizer.tokens(m.tokenizer.prepare(text))
			if len(tokens) > portableLimit {
				continue
			}
			reference.encoder.encode(t.Context(), w, tokens, want)
			m.encoder.encode(t.Context(), w, tokens, got)
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-4 {
					t.Fatalf("%s, %q: number %d is %g and %g on the portable kernel", k.name, text, i, got[i], want[i])
				}
			}
		}
	}
}
