// Typecheck says whether the packages of this module and their tests compile on other
// systems, as far as types decide that: typecheck GOOS...
//
// It is what go vet finds out first. But go vet compiles all that they import, once for
// each system, to know the types in it: five minutes of processor time on a fresh
// machine. Here types come from sources, and functions that are not ours have no bodies.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, system := range os.Args[1:] {
		n, err := check(system)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
			continue
		}
		fmt.Printf("%s: %d packages\n", system, n)
	}
	if failed {
		os.Exit(1)
	}
}

// check returns how many packages of ours there are, with those of tests.
func check(system string) (int, error) {
	here, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	config := &packages.Config{
		Mode:  packages.LoadAllSyntax,
		Env:   append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		Tests: true,
		ParseFile: func(set *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
			if f != nil && !strings.HasPrefix(name, here) {
				for _, decl := range f.Decls {
					if f, ok := decl.(*ast.FuncDecl); ok {
						f.Body = nil
					}
				}
			}
			return f, err
		},
	}
	list, err := packages.Load(config, "./...")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", system, err)
	}
	var failed []string
	for _, p := range list {
		if strings.HasSuffix(p.ID, ".test") {
			continue // what go test writes to run the tests
		}
		for _, e := range p.Errors {
			failed = append(failed, e.Error())
		}
	}
	if len(failed) > 0 {
		return 0, fmt.Errorf("%s:\n%s", system, strings.Join(failed, "\n"))
	}
	return len(list), nil
}
