package builtin

import (
	"context"
	"fmt"
	"math"
)

// The measures of the Universal Sentence Encoder lite.
const (
	vocabulary = 8002
	// inputDim is the size of token vectors, dim that of all later ones.
	inputDim = 256
	dim      = 512
	hidden   = 1536
	heads    = 4
	layers   = 2
	// layerNormEpsilon keeps the divisor of a layer normalization from 0.
	layerNormEpsilon = 1e-6
)

// A matrix is a weight matrix with one scale for each column: column j of the
// weights is scale[j] times int8 numbers. It lies in panels of 16 columns;
// see [kernel].
type matrix struct {
	rows, cols  int
	panels      []int8
	scale, bias []float32
}

type layer struct {
	norm1, norm2       layerNorm
	qkv, out, ff1, ff2 matrix
	// project brings the layer's input to the size of its output; the second
	// layer has none, since they are of one size there.
	project *matrix
	// queryScale is 1/sqrt(size of a head).
	queryScale float32
}

// layerNorm has the gain and the bias of a layer normalization.
type layerNorm struct{ gain, bias []float32 }

// An encoder is the Universal Sentence Encoder lite (Cer et al., "Universal
// Sentence Encoder", 2018): an encoder stack of two transformer layers
// (Vaswani et al., "Attention Is All You Need", 2017) whose layer
// normalizations stand before the sublayers, the mean of its outputs, one
// dense layer with tanh, and length 1; then a linear map of ours. It is safe for concurrent use, each
// caller with a workspace of its own.
type encoder struct {
	kernel     kernel
	tokens     []int8
	tokenScale []float32
	// frequencies are those of the timing signal.
	frequencies []float32
	layers      [layers]layer
	// head is the last layer of the original. adapt is a linear map behind it
	// that was trained for short technical texts.
	head, adapt matrix
}

// newEncoder reads the sections of the encoder.
func newEncoder(f *modelFile, k kernel) (*encoder, error) {
	r := &sectionReader{file: f}
	e := &encoder{
		kernel:      k,
		tokens:      r.int8s("token", vocabulary*inputDim),
		tokenScale:  r.float32s("token.scale", vocabulary),
		frequencies: r.float32s("timing", inputDim/2),
		head:        r.matrix("head", dim, dim),
		adapt:       r.matrix("adapt", dim, dim),
	}
	for i := range e.layers {
		l, in := &e.layers[i], dim
		if i == 0 {
			in = inputDim
			project := r.matrix("0.project", inputDim, dim)
			l.project = &project
		}
		name := fmt.Sprintf("%d.", i)
		l.norm1 = r.norm(name+"norm1", in)
		l.qkv = r.matrix(name+"qkv", in, 3*in)
		l.out = r.matrix(name+"out", in, dim)
		l.norm2 = r.norm(name+"norm2", dim)
		l.ff1 = r.matrix(name+"ff1", dim, hidden)
		l.ff2 = r.matrix(name+"ff2", hidden, dim)
		l.queryScale = float32(1 / math.Sqrt(float64(in/heads)))
	}
	return e, r.err
}

// A workspace holds what one text needs while it is encoded, about 2.5 MB.
type workspace struct {
	x, y, normed, wide, mixed []float32
	scores                    []float32
	pooled                    []float32
}

func newWorkspace() *workspace {
	const rows = maxTokens
	return &workspace{
		x:      make([]float32, rows*dim),
		y:      make([]float32, rows*dim),
		normed: make([]float32, rows*dim),
		wide:   make([]float32, rows*hidden),
		mixed:  make([]float32, rows*dim),
		scores: make([]float32, maxTokens),
		pooled: make([]float32, tileRows*dim),
	}
}

// encode writes the vector of a text of 1 to maxTokens tokens to out, which
// has dim numbers. When ctx ends it returns soon, with something of no use.
func (e *encoder) encode(ctx context.Context, w *workspace, tokens []int32, out []float32) {
	n := len(tokens)
	e.look(w.x, tokens)
	in := inputDim
	for i := range e.layers {
		l := &e.layers[i]
		// The first sublayer: x = attention(norm(x)) + x.
		l.norm1.apply(w.normed, w.x, n, in)
		e.multiply(ctx, &l.qkv, w.normed, n, w.wide, false)
		e.attend(w, n, in, l.queryScale)
		e.multiply(ctx, &l.out, w.mixed, n, w.y, false)
		if l.project != nil {
			e.multiply(ctx, l.project, w.x, n, w.normed, false)
			add(w.y[:n*dim], w.normed)
		} else {
			add(w.y[:n*dim], w.x)
		}
		// The second: x = W2·relu(W1·norm(x)) + x.
		l.norm2.apply(w.normed, w.y, n, dim)
		e.multiply(ctx, &l.ff1, w.normed, n, w.wide, true)
		e.multiply(ctx, &l.ff2, w.wide, n, w.x, false)
		add(w.x[:n*dim], w.y)
		in = dim
	}

	mean := w.pooled[:dim]
	clear(mean)
	for t := range n {
		add(mean, w.x[t*dim:])
	}
	for i := range mean {
		mean[i] /= float32(n)
	}
	e.multiply(ctx, &e.head, w.pooled, 1, w.mixed, false)
	sentence := w.pooled[:dim]
	for i := range sentence {
		sentence[i] = float32(math.Tanh(float64(w.mixed[i])))
	}
	normalize(sentence)
	e.multiply(ctx, &e.adapt, w.pooled, 1, w.y, false)
	copy(out, w.y[:dim])
	normalize(out)
}

// look writes the vectors of the tokens to x: twice the token's vector, as
// the model was trained, plus the timing signal of its position, which is
// sines and then cosines (Vaswani et al. 2017, section 3.5, in the form of
// tensor2tensor's add_timing_signal).
func (e *encoder) look(x []float32, tokens []int32) {
	for t, id := range tokens {
		row, scale := e.tokens[int(id)*inputDim:][:inputDim], 2*e.tokenScale[id]
		out := x[t*inputDim:][:inputDim]
		for i, v := range row {
			out[i] = float32(v) * scale
		}
		for i, f := range e.frequencies {
			// The angle is rounded to float32 first, as in the original.
			angle := float64(float32(t) * f)
			out[i] += float32(math.Sin(angle))
			out[inputDim/2+i] += float32(math.Cos(angle))
		}
	}
}

// multiply sets c = a·m + bias for n rows, and negative numbers to 0 if relu
// is set. Rows are worked on in fours, so c is written, and a read, up to the
// next multiple of four; what a holds there meets nothing of the others.
func (e *encoder) multiply(ctx context.Context, m *matrix, a []float32, n int, c []float32, relu bool) {
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	// Where the kernel is slow, one multiplication may take 200 ms.
	for col := 0; col < m.cols && ctx.Err() == nil; col += panel {
		weights := m.panels[col*m.rows:][:m.rows*panel]
		for row := 0; row < n; row += tileRows {
			e.kernel.tile(a[row*m.rows:], m.rows, weights, m.rows, c[row*m.cols+col:], m.cols, m.scale[col:], m.bias[col:], floor)
		}
	}
}

// attend is scaled dot-product attention with several heads (Vaswani et al.
// 2017, section 3.2): it reads queries, keys and values from w.wide, where
// they lie side by side in each row, and writes to w.mixed.
func (e *encoder) attend(w *workspace, n, size int, queryScale float32) {
	head, stride := size/heads, 3*size
	mixed, scores := w.mixed[:n*size], w.scores[:n]
	clear(mixed)
	for t := range n {
		for h := range heads {
			query := w.wide[t*stride+h*head:][:head]
			highest := float32(math.Inf(-1))
			for u := range scores {
				s := e.kernel.dot(query, w.wide[u*stride+size+h*head:][:head]) * queryScale
				scores[u], highest = s, max(highest, s)
			}
			var sum float32
			for u, s := range scores {
				scores[u] = float32(math.Exp(float64(s - highest)))
				sum += scores[u]
			}
			out := mixed[t*size+h*head:][:head]
			for u, s := range scores {
				e.kernel.axpy(s/sum, w.wide[u*stride+2*size+h*head:][:head], out)
			}
		}
	}
}

// apply sets each of the n rows of out to the layer normalization of that of
// x: (x - mean)/sqrt(variance + ε)·gain + bias (Ba et al. 2016).
func (g layerNorm) apply(out, x []float32, n, size int) {
	for t := range n {
		row, to := x[t*size:][:size], out[t*size:][:size]
		var sum float32
		for _, v := range row {
			sum += v
		}
		mean := sum / float32(size)
		var squares float32
		for _, v := range row {
			squares += (v - mean) * (v - mean)
		}
		scale := 1 / float32(math.Sqrt(float64(squares/float32(size)+layerNormEpsilon)))
		for i, v := range row {
			to[i] = (v-mean)*scale*g.gain[i] + g.bias[i]
		}
	}
}

// add adds the first numbers of x to those of sum.
func add(sum, x []float32) {
	x = x[:len(sum)]
	for i, v := range x {
		sum[i] += v
	}
}

// normalize brings v to length 1 (L2 norm), unless it is all zero.
func normalize(v []float32) {
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	if squares == 0 {
		return
	}
	scale := float32(1 / math.Sqrt(squares))
	for i := range v {
		v[i] *= scale
	}
}
