// Command metamcp-embed turns texts into vectors with a local GGUF model, in a
// process of its own: llama.cpp is native code, which may crash, hang or take
// memory that it never gives back, and none of that may touch the host. metamcp
// starts it when it needs it; it speaks the protocol of
// [github.com/metamcp/metamcp/index/embed/local/wire] over standard input and
// output, logs to standard error, and ends when its input does.
//
// It needs llama.cpp as github.com/kelindar/search builds it: libllama_go.so,
// libllama_go.dylib or llama_go.dll. Without that file it cannot even begin,
// since kelindar/search panics when it is initialised; that is why nothing else
// of metamcp imports it.
package main

import (
	"fmt"
	"os"

	"github.com/kelindar/search"

	"github.com/metamcp/metamcp/cmd/metamcp-embed/stdio"
	"github.com/metamcp/metamcp/index/embed/local/worker"
)

func main() {
	fd, err := stdio.Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "metamcp-embed: keep standard output for the protocol:", err)
		os.Exit(1)
	}
	if err := worker.Serve(os.Stdin, os.NewFile(fd, "protocol"), load); err != nil {
		fmt.Fprintln(os.Stderr, "metamcp-embed:", err)
		os.Exit(1)
	}
	// Whatever llama.cpp is still at is of no use to anybody.
	os.Exit(0)
}

// model is a model that llama.cpp holds.
type model struct {
	vectorizer *search.Vectorizer
	context    *search.Context
}

func load(path string, gpuLayers int) (worker.Model, error) {
	v, err := search.NewVectorizer(path, gpuLayers)
	if err != nil {
		return nil, err
	}
	// One context is enough: texts are embedded one after the other, each by
	// several threads of llama.cpp.
	return &model{v, v.Context(0)}, nil
}

// Embed implements worker.Model.
func (m *model) Embed(text string) ([]float32, error) { return m.context.EmbedText(text) }
