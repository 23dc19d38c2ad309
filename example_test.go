package metamcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
)

// exampleEngine opens an engine with one server, "demo". A program would pass
// its own files, or none: then ./.mcp.json or ~/.metamcp/mcp.json is read.
func exampleEngine() (*metamcp.Engine, func()) {
	dir, err := os.MkdirTemp("", "metamcp-example")
	if err != nil {
		log.Fatal(err)
	}
	file, err := writeConfig(dir, children(map[string][]string{"demo": nil}, nil))
	if err != nil {
		log.Fatal(err)
	}
	e, err := metamcp.Open(context.Background(), metamcp.Options{
		Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir},
		Log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		log.Fatal(err)
	}
	return e, func() {
		if err := e.Close(context.Background()); err != nil {
			log.Print(err)
		}
		_ = os.RemoveAll(dir)
	}
}

// The whole way: find a tool, call it, read its result.
func Example() {
	e, done := exampleEngine()
	defer done()
	ctx := context.Background()

	found, err := e.Search(ctx, "add numbers", metamcp.SearchOptions{Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	tool := found.Matches[0]
	result, err := e.Execute(ctx, tool.Server, tool.Name, json.RawMessage(`{"a": 19, "b": 23}`), metamcp.ExecuteOptions{})
	if err != nil {
		log.Fatal(err)
	}
	var answer struct {
		Structured struct {
			Sum float64 `json:"sum"`
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal(result.Raw, &answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(tool.Server, tool.Name, answer.Structured.Sum)
	// Output: demo add 42
}

// Errors say what failed, why, and what to do next.
func ExampleEngine_Execute() {
	e, done := exampleEngine()
	defer done()

	_, err := e.Execute(context.Background(), "demo", "ad", nil, metamcp.ExecuteOptions{})
	var failure *metamcp.Error
	if errors.As(err, &failure) {
		fmt.Println(failure.Code)
		fmt.Println(failure.Message)
	}
	// Output:
	// TOOL_NOT_FOUND
	// "demo" has no tool "ad"; nearest: "add"
}

// Progress comes as a stream, in order, before the result.
func ExampleEngine_Stream() {
	e, done := exampleEngine()
	defer done()

	for update, err := range e.Stream(context.Background(), "demo", "slow", json.RawMessage(`{"ms": 30, "steps": 3}`), metamcp.ExecuteOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		if update.Progress != nil {
			var p struct{ Progress, Total float64 }
			if err := json.Unmarshal(update.Progress, &p); err != nil {
				log.Fatal(err)
			}
			fmt.Printf("step %g of %g\n", p.Progress, p.Total)
			continue
		}
		fmt.Println("done, failed:", update.Result.IsError)
	}
	// Output:
	// step 1 of 3
	// step 2 of 3
	// step 3 of 3
	// done, failed: false
}

// ListServers starts nothing; ListTools asks a server that was never seen.
func ExampleEngine_ListTools() {
	e, done := exampleEngine()
	defer done()

	before := e.ListServers()[0]
	tools, err := e.ListTools(context.Background(), "demo", false)
	if err != nil {
		log.Fatal(err)
	}
	after := e.ListServers()[0]
	fmt.Println("connected before:", before.Connected, "after:", after.Connected)
	fmt.Println("first tool:", tools[0].Name, "-", tools[0].Summary)
	// Output:
	// connected before: false after: true
	// first tool: echo - Returns the text that it is given.
}

// One script in place of many calls: it runs in a sandbox that has nothing but
// the tools.
func ExampleEngine_Run() {
	e, done := exampleEngine()
	defer done()

	result, err := e.Run(context.Background(), metamcp.RunRequest{
		Code: `
			const sums = await Promise.all([1, 2, 3].map(n => servers.demo.add({ a: n, b: 10 })));
			console.log("added", sums.length, "times");
			return sums.map(s => s.sum);`,
		Console: func(l metamcp.ConsoleLine) { fmt.Println(l.Text) },
	})
	if err != nil {
		log.Fatal(err)
	}
	if result.Failure != nil {
		log.Fatal(result.Failure.Message)
	}
	fmt.Println(string(result.Value), "by", len(result.Calls), "calls")
	// Output:
	// added 3 times
	// [11,12,13] by 3 calls
}
