package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/control"
)

func TestShellHint(t *testing.T) {
	for _, c := range []struct{ text, server, tool, want string }{
		{"Call mcp_discover with this server for the list of its tools.", "demo", "ad", "Run `metamcp discover --server demo` for the list of its tools."},
		{"Call mcp_discover without arguments for the list of servers.", "", "", "Run `metamcp discover` for the list of servers."},
		{"Correct the arguments; mcp_discover with server and tool shows the schema.", "my server", "it's", "Correct the arguments; `metamcp discover --server 'my server' --tool 'it'\\''s'` shows the schema."},
		{"Correct the arguments; mcp_discover with server and tool shows the schema.", "", "", "Correct the arguments; `metamcp discover --server SERVER --tool TOOL` shows the schema."},
		{"Call again with a longer timeoutMs.", "demo", "", "Call again with a longer --timeout."},
		{"Use another tool, or ask the user to change metamcp.toolRules.", "demo", "add", "Use another tool, or change metamcp.toolRules."},
		{"If the user wants the server, it can be turned on with `metamcp enable off`.", "off", "", "If you want the server, it can be turned on with `metamcp enable off`."},
		{"No server is configured. The user can add some to .mcp.json under mcpServers.", "", "", "No server is configured. Add one with `metamcp add NAME`, of which `metamcp add --list` shows some, or take those of your clients with `metamcp import`."},
		{"Use another tool, or ask the user to look at it with metamcp pins diff demo and to accept it with metamcp approve demo.", "demo", "add", "Use another tool, or look at it with metamcp pins diff demo and accept it with metamcp approve demo."},
		{"correct the code and send it again", "", "", "correct the code and run it again"},
		{"Correct the code and send it again", "", "", "Correct the code and run it again"},
		{"Send the code alone: the lines", "", "", "Give the code alone: the lines"},
		{"Nothing to translate.", "demo", "", "Nothing to translate."},
	} {
		if got := shellHint(c.text, c.server, c.tool); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
	}
}

// TestHintsAreAboutTheSameFiles: what one tells to type reads what the command has read.
func TestHintsAreAboutTheSameFiles(t *testing.T) {
	const hint = "Run `metamcp auth login x`, or metamcp secrets set NAME; another metamcp host may have it."
	for _, c := range []struct {
		flags []string
		text  string
		want  string
	}{
		{nil, hint, hint},
		{[]string{"-c", "my file.json", "--config", "b.json", "--state-dir", "st"}, hint, "Run `metamcp --config 'my file.json' --config b.json --state-dir st auth login x`, or metamcp --config 'my file.json' --config b.json --state-dir st secrets set NAME; another metamcp host may have it."},
		{[]string{"-c", "a.json"}, "Try it: metamcp test x --config a.json", "Try it: metamcp test x --config a.json"},
	} {
		root := newRoot(io.Discard)
		if err := root.ParseFlags(c.flags); err != nil {
			t.Fatal(err)
		}
		if got := withSources(root, c.text); got != c.want {
			t.Errorf("%q: %q, want %q", c.flags, got, c.want)
		}
	}
}

// TestSaid: what a host answers to a command reads as what the command itself says.
func TestSaid(t *testing.T) {
	answer := &control.Error{Code: "SERVER_NOT_FOUND", Message: "there is no server x", Hint: "Call mcp_discover without arguments for the list of servers."}
	for err, want := range map[error]string{
		fmt.Errorf("logs: %w", answer):                                   "logs: there is no server x; Run `metamcp discover` for the list of servers.",
		errors.New("Call mcp_discover with this server for the list of"): "Call mcp_discover with this server for the list of",
	} {
		if got := said(err); got != want {
			t.Errorf("%v is said as %q", err, got)
		}
	}
}

func TestForPerson(t *testing.T) {
	for text, want := range map[string]string{
		"The user can turn it on with `metamcp enable x`.":  "You can turn it on with `metamcp enable x`.",
		"The user decides: `metamcp provision` installs it": "You decide: `metamcp provision` installs it",
		"it would be installed with autoProvision: because": "it would be installed with --yes: because",
	} {
		if got := forPerson(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestEveryHintIsTranslated reads the hints and notes of the runtime from its
// source: one that is worded anew must not reach the shell in words of MCP.
func TestEveryHintIsTranslated(t *testing.T) {
	foreign := regexp.MustCompile(`mcp_discover|mcp_call|longer timeoutMs|no timeoutMs|is in details|send (it again|the code)|script as code|` +
		`[Tt]he user (accept|can|changes|decides|has to|may|removes|runs|sees|wants)|([Aa]sk|tell|until) the user|shows the user|you accepts`)
	found := 0
	for _, dir := range []string{"../..", "../../actors", "../../supervision", "../../index", "../../integration/sandbox/worker"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			// What clients read of the tools themselves never reaches the shell.
			if strings.HasSuffix(file, "_test.go") || dir == "../.." && (filepath.Base(file) == "tools.go" || filepath.Base(file) == "expose.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " ") && foreign.MatchString(text) {
					found++
					if got := shellHint(text, "s", "t"); foreign.MatchString(got) {
						t.Errorf("%s: the shell would say %q", file, got)
					}
				}
				return true
			})
		}
	}
	if found == 0 {
		t.Error("no hint was found")
	}
}

// TestHintsBeginAlike reads from the source the hints of errors that stand alone, behind
// "hint:" or in an answer: they are sentences. A method of MCP stays as it is written.
func TestHintsBeginAlike(t *testing.T) {
	within := map[string]bool{"config": true, "control": true, "worker": true} // whose hints stand within other texts
	plain := regexp.MustCompile(`^[a-z]+( |$)`)
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || within[d.Name()]):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			for _, hint := range hintsOfError(n) {
				if found++; plain.MatchString(hint) {
					t.Errorf("%s: the hint %q begins in lower case", path, hint)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d hints were found: %v", found, err)
	}
}

// hintsOfError are the hints written in a literal of an Error.
func hintsOfError(n ast.Node) (hints []string) {
	lit, ok := n.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	name, _ := lit.Type.(*ast.Ident)
	if of, ok := lit.Type.(*ast.SelectorExpr); ok {
		name = of.Sel
	}
	if name == nil || name.Name != "Error" {
		return nil
	}
	for _, e := range lit.Elts {
		kv, _ := e.(*ast.KeyValueExpr)
		if kv == nil {
			continue
		}
		value, _ := kv.Value.(*ast.BasicLit)
		if key, _ := kv.Key.(*ast.Ident); value == nil || key == nil || key.Name != "Hint" {
			continue
		}
		if text, err := strconv.Unquote(value.Value); err == nil {
			hints = append(hints, text)
		}
	}
	return hints
}
