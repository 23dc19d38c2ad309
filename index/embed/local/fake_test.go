package local_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index/embed/local/wire"
	"github.com/metamcp/metamcp/index/embed/local/worker"
	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
)

// fakeModel embeds a text as its length and its first byte, or misbehaves.
type fakeModel struct{ role string }

func (m fakeModel) Embed(text string) ([]float32, error) {
	switch {
	case text == "crash", m.role == "crash always":
		fmt.Fprintln(os.Stderr, "the fake\x1b[31m crashed")
		os.Exit(3)
	case text == "crash once":
		marker := os.Getenv("LLAMA_TEST_MARKER")
		if f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close()
			os.Exit(3)
		}
	case text == "hang":
		<-time.After(time.Hour) // a bare select would be a deadlock, which ends the program
	case text == "slow":
		<-time.After(50 * time.Millisecond)
	case text == "refuse":
		return nil, fmt.Errorf("last token in the prompt is not SEP")
	case text == "wider":
		return []float32{1, 2, 3}, nil
	case text == "infinite":
		zero := float32(0)
		return []float32{1 / zero, 1}, nil
	case strings.HasPrefix(text, "query: "):
		return []float32{1, 0}, nil
	}
	return []float32{float32(len(text)), float32(text[0])}, nil
}

// fakeWorker is the program that stands in for metamcp-embed.
func fakeWorker(role string) {
	load := func(string, int) (worker.Model, error) { return fakeModel{role}, nil }
	switch role {
	case "hello of tomorrow":
		_ = wire.Write(os.Stdout, wire.Answer{Type: wire.Hello, Version: 99})
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "chatter":
		fmt.Println("a library prints this to standard output")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	case "deaf":
		_ = wire.Write(os.Stdout, wire.Answer{Type: wire.Hello, Version: wire.Version})
		_ = wire.Write(os.Stdout, wire.Answer{Type: wire.Loaded})
		<-time.After(time.Hour) // a bare select would be a deadlock, which ends the program
	case "wrong order":
		_ = wire.Write(os.Stdout, wire.Answer{Type: wire.Hello, Version: wire.Version})
		_ = wire.Write(os.Stdout, wire.Answer{Type: wire.Loaded})
		in := bufio.NewReader(os.Stdin)
		for {
			var r wire.Request
			if wire.Read(in, &r) != nil {
				return
			}
			if r.Type == wire.Embed {
				_ = wire.Write(os.Stdout, wire.Answer{Type: wire.Vector, ID: r.ID, Index: len(r.Texts) - 1, Values: wire.Pack([]float32{1, 1})})
			}
		}
	case "load for ever":
		load = func(string, int) (worker.Model, error) { select {} }
	case "panic":
		panic("Library 'libllama_go.so' not found, checked following paths:\n - /lib")
	}
	if err := worker.Serve(os.Stdin, os.Stdout, load); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func fakeGGUF() []byte { return gguftest.BERT{Layers: 1, Dimension: 4, Context: 512}.Bytes() }
