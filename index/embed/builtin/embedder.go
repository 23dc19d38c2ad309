// Package builtin is an embedder that comes with the program: a small neural
// network and a table of word vectors, in Go and some assembly, which need no
// network, no key, and no native library. They know English.
//
// The neural network is the Universal Sentence Encoder lite, with a linear
// map behind it. The map and the word vectors were trained on names and
// summaries of software packages. NOTICE states the origins; the folder
// make-model has the programs that make the data file.
package builtin

import (
	"context"
	_ "embed" // for the data file
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/index/embed"
)

//go:embed model.bin
var modelData string

const (
	// modelName changes whenever the vectors do.
	modelName = "builtin/use-lite-words-v1"
	// batch is how many texts a call takes. More would only make the answer
	// come later, since each text is worked on by itself.
	batch = 64
)

// Dim is the number of dimensions of a vector: those of the encoder, then
// those of the words.
const Dim = dim + wordDim

// wordWeight is the length of the words' part of a vector, where that of the
// encoder's part is 1. The cosine of two vectors thus is the mean of the
// parts' cosines, the encoder's with weight 1 and the words' with
// wordWeight². It was chosen from 0.5, 0.8 and 1.
const wordWeight = 0.5

// An Embedder makes vectors of [Dim] dimensions with the built-in model. It
// reads the model at the first call of Embed that needs it, which takes some
// 10 ms. Its methods may be called by several goroutines at once. On one
// machine a text always has the same vector, bit for bit; other kinds of
// CPUs may round otherwise.
type Embedder struct {
	// Queries and documents have slots of their own, so that a query never
	// waits for documents: it shares the cores with them instead.
	queries, documents chan struct{}

	load       func() (*model, error)
	workspaces sync.Pool
}

var _ embed.Embedder = (*Embedder)(nil)

// A model is what the data file holds.
type model struct {
	tokenizer *tokenizer
	encoder   *encoder
	words     *wordTable
}

type config struct{ threads int }

// An Option changes how an Embedder works.
type Option func(*config)

// Threads sets how many documents, and how many queries beside them, are
// worked on at a time over all calls of Embed. The default is 2, or 1 where
// GOMAXPROCS is 1.
func Threads(n int) Option { return func(c *config) { c.threads = n } }

// New returns an embedder. It is cheap: nothing is read or started yet. It
// returns an error for an impossible option.
func New(options ...Option) (*Embedder, error) {
	return newEmbedder(modelData, newKernel(), options...)
}

func newEmbedder(data string, k kernel, options ...Option) (*Embedder, error) {
	c := config{threads: min(2, runtime.GOMAXPROCS(0))}
	for _, option := range options {
		option(&c)
	}
	if c.threads < 1 {
		return nil, &embed.Error{
			Reason:  embed.Misconfigured,
			Message: fmt.Sprintf("the built-in embedder cannot work with %d threads", c.threads),
			Hint:    "Set 1 or more",
		}
	}
	return &Embedder{
		queries:    make(chan struct{}, c.threads),
		documents:  make(chan struct{}, c.threads),
		load:       sync.OnceValues(func() (*model, error) { return loadModel(data, k) }),
		workspaces: sync.Pool{New: func() any { return newWorkspace() }},
	}, nil
}

func loadModel(data string, k kernel) (*model, error) {
	m, err := readModel(data, k)
	if err != nil {
		return nil, &embed.Error{
			Reason:  embed.Misconfigured,
			Message: "the data file of the built-in embedder cannot be used: " + err.Error(),
			Hint:    "The program was not built right or is damaged: install it again, or configure another embedder",
			Cause:   err,
		}
	}
	return m, nil
}

func readModel(data string, k kernel) (*model, error) {
	f, err := openModel(data)
	if err != nil {
		return nil, err
	}
	section, err := f.raw("vocabulary")
	if err != nil {
		return nil, err
	}
	t, err := newTokenizer(section)
	if err != nil {
		return nil, err
	}
	e, err := newEncoder(f, k)
	if err != nil {
		return nil, err
	}
	w, err := newWordTable(f)
	if err != nil {
		return nil, err
	}
	return &model{tokenizer: t, encoder: e, words: w}, nil
}

// Model implements [embed.Embedder].
func (e *Embedder) Model() string { return modelName }

// Batch implements [embed.Embedder].
func (e *Embedder) Batch() int { return batch }

// Close implements [embed.Embedder]. Nothing is left to end: what Embed
// starts ends before it returns.
func (e *Embedder) Close() error { return nil }

// Embed implements [embed.Embedder]. Both kinds of texts are embedded alike.
// Of a text the encoder sees the first 128 word pieces, and the word table the
// first 2,048 characters. A text of which the encoder knows no piece, such as
// an empty or a Chinese one, has a nil vector.
func (e *Embedder) Embed(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, err := e.load()
	if err != nil {
		return nil, err
	}
	slots := e.documents
	if kind == embed.Query {
		slots = e.queries
	}
	vectors := make([][]float32, len(texts))
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(texts) {
				return
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			vectors[i] = e.embed(ctx, m, texts[i])
			<-slots
		}
	}
	// This goroutine is one of the workers; a single text needs no other.
	var workers sync.WaitGroup
	for range min(cap(slots), len(texts)) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return vectors, nil
}

// embed returns the vector of one text, or nothing of use once ctx has ended.
func (e *Embedder) embed(ctx context.Context, m *model, text string) []float32 {
	text = m.tokenizer.prepare(text)
	tokens := m.tokenizer.tokens(text)
	if !m.tokenizer.known(tokens) {
		return nil
	}
	w := e.workspaces.Get().(*workspace)
	defer e.workspaces.Put(w)
	vector := make([]float32, Dim)
	m.encoder.encode(ctx, w, tokens, vector[:dim])
	words := vector[dim:]
	m.words.encode(text, words)
	for i := range words {
		words[i] *= wordWeight
	}
	normalize(vector)
	return vector
}
