package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/metamcp/metamcp"

// zone is a set of packages that obey the same rule.
type zone string

const (
	zoneLeaves      zone = "the leaves"
	zoneMessages    zone = "messages"
	zoneKernel      zone = "supervision/kernel"
	zoneSupervision zone = "supervision"
	zoneIndex       zone = "index"
	zoneActors      zone = "actors"
	zoneIntegration zone = "integration"
	zoneFacade      zone = "the root package"
	zoneCmd         zone = "cmd"
)

// mayImport is the import rule: everything of ours that a zone may import,
// beyond itself. Imports run downwards only, and integration stands aside: the
// facade and the commands hand its pieces to the actors as interfaces.
var mayImport = map[zone][]zone{
	zoneLeaves:      nil,
	zoneMessages:    nil,
	zoneKernel:      {zoneMessages},
	zoneSupervision: {zoneMessages, zoneKernel},
	zoneIndex:       {zoneLeaves, zoneMessages, zoneKernel},
	zoneActors:      {zoneLeaves, zoneMessages, zoneKernel, zoneSupervision, zoneIndex},
	zoneIntegration: {zoneLeaves, zoneMessages},
	zoneFacade:      {zoneLeaves, zoneMessages, zoneKernel, zoneSupervision, zoneIndex, zoneActors, zoneIntegration},
	zoneCmd:         {zoneLeaves, zoneMessages, zoneKernel, zoneSupervision, zoneIndex, zoneActors, zoneIntegration, zoneFacade},
}

// leaves are small mechanisms in integration that import nothing of ours, not even each
// other: index and actors may import them too, so that nobody writes them a second time.
var leaves = []string{"integration/atomicfile", "integration/diskspace", "integration/regular", "integration/spelling"}

// narrower are folders whose packages may import less of ours than their zone: each
// other, and what is at or below these paths. Their tests may import what the zone may.
var narrower = map[string][]string{
	"index/rank":        slices.Concat([]string{"index/vector"}, leaves),
	"index/vector":      nil,
	"index/embed":       slices.Concat([]string{"index"}, leaves),
	"index/store":       leaves,
	"cmd/metamcp-embed": {"index/embed/local"},
}

// confined are libraries that one folder's packages alone may know.
var confined = map[string]string{
	"code.dny.dev/ssrf":                 "integration/netguard",
	"github.com/asynkron/protoactor-go": "supervision/kernel",
	"github.com/dgraph-io/badger":       "index/store",
	"github.com/google/renameio":        "integration/atomicfile",
	"github.com/kelindar/search":        "cmd/metamcp-embed",
	"modernc.org/libc":                  "integration/sandbox/worker",
	"modernc.org/libquickjs":            "integration/sandbox/worker",
	"modernc.org/quickjs":               "integration/sandbox/worker",
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// zoneOf returns the zone of a package, "" for one that is not ours, and an
// error for one of ours that has no place in the house.
func zoneOf(path string) (zone, error) {
	if path == module {
		return zoneFacade, nil
	}
	rel, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		return "", nil
	}
	if within(rel, string(zoneKernel)) {
		return zoneKernel, nil
	}
	if slices.Contains(leaves, rel) {
		return zoneLeaves, nil
	}
	top, _, _ := strings.Cut(rel, "/")
	switch z := zone(top); z {
	case zoneMessages, zoneSupervision, zoneIndex, zoneActors, zoneIntegration, zoneCmd:
		return z, nil
	default:
		return "", fmt.Errorf("%s is in none of the folders that the import rule knows", path)
	}
}

func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// check returns every violation of the import rule, in the order of the packages.
//
// Tests obey it too, with two exceptions: the tests of integration, leaves too,
// drive the whole program and may import all of it, and all tests may use
// integration, for they need real processes and real files.
func check(pkgs []pkg) []string {
	var found []string
	for _, p := range pkgs {
		from, err := zoneOf(p.ImportPath)
		if err != nil {
			found = append(found, err.Error())
			continue
		}
		for _, imported := range p.Imports {
			if what := judge(p.ImportPath, from, imported, false); what != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, what))
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if what := judge(p.ImportPath, from, imported, true); what != "" {
				found = append(found, fmt.Sprintf("a test of %s imports %s: %s", p.ImportPath, imported, what))
			}
		}
	}
	return found
}

// judge returns what is wrong with one import, or nothing.
func judge(importer string, from zone, imported string, inTest bool) string {
	rel := strings.TrimPrefix(importer, module+"/")
	for library, owner := range confined {
		// Later major versions have a suffix: /v4.
		if within(imported, library) && !within(rel, owner) {
			return fmt.Sprintf("only %s may", owner)
		}
	}
	to, err := zoneOf(imported)
	switch {
	case err != nil:
		return err.Error()
	case to == "":
		return ""
	case inTest && slices.ContainsFunc([]zone{from, to}, func(z zone) bool { return z == zoneIntegration || z == zoneLeaves }):
		return ""
	case from == zoneLeaves || to != from && !slices.Contains(mayImport[from], to):
		return fmt.Sprintf("%s may not import %s", from, to)
	}
	for folder, allowed := range narrower {
		may := slices.Concat([]string{folder}, allowed)
		if !inTest && within(rel, folder) && !slices.ContainsFunc(may, func(path string) bool { return within(imported, module+"/"+path) }) {
			return fmt.Sprintf("%s may import %q of ours only", folder, may)
		}
	}
	return ""
}

// Files for other systems count as well, so each system's list is looked at.
func TestImportsRunDownwards(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		t.Run(goos, func(t *testing.T) {
			pkgs := list(t, goos)
			if len(pkgs) < 5 {
				t.Fatalf("go list knows %d packages only", len(pkgs))
			}
			for _, violation := range check(pkgs) {
				t.Error(violation)
			}
		})
	}
}

func list(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &complaints)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

// The check above passes for ever if it finds nothing: this one shows that it can.
func TestImportCheckFindsViolations(t *testing.T) {
	const (
		protoactor = "github.com/asynkron/protoactor-go/actor"
		badger     = "github.com/dgraph-io/badger/v4"
		quickjs    = "modernc.org/quickjs"
		search     = "github.com/kelindar/search"
		ssrf       = "code.dny.dev/ssrf"
		renameio   = "github.com/google/renameio/v2"
	)
	tests := []struct {
		name, from, imports string
		inTest              bool
		want                bool // a violation
	}{
		{"messages import nothing", "messages", module + "/supervision/kernel", false, true},
		{"messages import the facade", "messages", module, false, true},
		{"kernel imports messages", "supervision/kernel", module + "/messages", false, false},
		{"kernel imports supervision", "supervision/kernel", module + "/supervision", false, true},
		{"supervision imports kernel", "supervision", module + "/supervision/kernel", false, false},
		{"supervision imports index", "supervision", module + "/index", false, true},
		{"supervision imports actors", "supervision", module + "/actors", false, true},
		{"index imports kernel", "index", module + "/supervision/kernel", false, false},
		{"index imports supervision", "index", module + "/supervision", false, true},
		{"below index, index", "index/embed/builtin", module + "/index", false, false},
		{"rank imports vector", "index/rank", module + "/index/vector", false, false},
		{"rank imports a leaf", "index/rank", module + "/integration/spelling", false, false},
		{"rank imports index", "index/rank", module + "/index", false, true},
		{"a test of rank imports index", "index/rank", module + "/index", true, false},
		{"vector imports a leaf", "index/vector", module + "/integration/spelling", false, true},
		{"the store imports index", "index/store", module + "/index", false, true},
		{"the store imports kernel", "index/store", module + "/supervision/kernel", false, true},
		{"an embedder imports kernel", "index/embed/builtin", module + "/supervision/kernel", false, true},
		{"the embedding worker imports its own", "cmd/metamcp-embed", module + "/cmd/metamcp-embed/stdio", false, false},
		{"the embedding worker imports the local embedder's", "cmd/metamcp-embed", module + "/index/embed/local/worker", false, false},
		{"the embedding worker imports the facade", "cmd/metamcp-embed", module, false, true},
		{"below the embedding worker, the facade", "cmd/metamcp-embed/stdio", module, false, true},
		{"actors import supervision", "actors", module + "/supervision", false, false},
		{"actors import the facade", "actors", module, false, true},
		{"actors import integration", "actors", module + "/integration/child", false, true},
		{"integration imports messages", "integration/child", module + "/messages", false, false},
		{"integration imports integration", "integration/child", module + "/integration/childlog", false, false},
		{"integration imports a leaf", "integration/child", module + "/integration/regular", false, false},
		{"index imports a leaf", "index/store", module + "/integration/regular", false, false},
		{"index imports integration", "index/store", module + "/integration/child", false, true},
		{"actors import a leaf", "actors", module + "/integration/regular", false, false},
		{"messages import a leaf", "messages", module + "/integration/regular", false, true},
		{"a leaf imports messages", "integration/regular", module + "/messages", false, true},
		{"a leaf imports integration", "integration/regular", module + "/integration/child", false, true},
		{"a leaf imports a leaf", "integration/regular", module + "/integration/regular", false, true},
		{"a test of a leaf imports it", "integration/regular", module + "/integration/regular", true, false},
		{"below a leaf", "index", module + "/integration/regular/more", false, true},
		{"integration imports kernel", "integration/child", module + "/supervision/kernel", false, true},
		{"integration imports actors", "integration/front", module + "/actors", false, true},
		{"integration imports the facade", "integration/front", module, false, true},
		{"the facade imports actors", "", module + "/actors", false, false},
		{"the facade imports cmd", "", module + "/cmd/metamcp", false, true},
		{"cmd imports the facade", "cmd/metamcp", module, false, false},
		{"a folder of its own", "util", "fmt", false, true},
		{"an import of such a folder", "actors", module + "/util", false, true},
		{"a name that only begins alike", "messages", module + "2/actors", false, false},
		{"kernel imports protoactor", "supervision/kernel", protoactor, false, false},
		{"supervision imports protoactor", "supervision", protoactor, false, true},
		{"cmd imports protoactor", "cmd/metamcp", protoactor, false, true},
		{"the store imports badger", "index/store", badger, false, false},
		{"the store imports a part of badger", "index/store", badger + "/table", false, false},
		{"index imports badger", "index", badger, false, true},
		{"the sandbox's worker imports its engine", "integration/sandbox/worker", quickjs, false, false},
		{"the sandbox imports the engine", "integration/sandbox", quickjs, false, true},
		{"the embedding worker imports llama.cpp", "cmd/metamcp-embed", search, false, false},
		{"the program imports llama.cpp", "cmd/metamcp", search, false, true},
		{"netguard imports ssrf", "integration/netguard", ssrf, false, false},
		{"remote imports ssrf", "integration/remote", ssrf, false, true},
		{"atomicfile imports renameio", "integration/atomicfile", renameio, false, false},
		{"index imports renameio", "index", renameio, false, true},
		{"actors import badger", "actors", badger, false, true},
		{"a test of actors imports badger", "actors", badger, true, true},
		{"a test of actors imports integration", "actors", module + "/integration/child", true, false},
		{"a test of index imports supervision", "index", module + "/supervision", true, true},
		{"a test of integration imports actors", "integration", module + "/actors", true, false},
		{"a test of messages imports kernel", "messages", module + "/supervision/kernel", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pkg{ImportPath: strings.TrimSuffix(module+"/"+tt.from, "/")}
			if tt.inTest {
				p.XTestImports = []string{"fmt", tt.imports}
			} else {
				p.Imports = []string{"fmt", tt.imports}
			}
			got := check([]pkg{{ImportPath: module + "/messages"}, p})
			if (len(got) > 0) != tt.want {
				t.Errorf("violations %q, want some: %t", got, tt.want)
			}
		})
	}
}

// What ARCHITECTURE.md says of a library that only one folder knows is checked.
func TestConfinedLibrariesAreThoseOfTheTable(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Dependencies\n")
	said := map[string]string{}
	for row := range strings.Lines(table) {
		_, owner, ok := strings.Cut(row, "only `")
		if !ok {
			continue
		}
		owner, _, _ = strings.Cut(owner, "`")
		libraries, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for library := range strings.SplitSeq(libraries, ", ") {
			said[strings.TrimPrefix(library, "github.com/")] = owner
		}
	}
	checked := map[string]string{}
	for library, owner := range confined {
		checked[strings.TrimPrefix(library, "github.com/")] = owner
	}
	if !maps.Equal(said, checked) {
		t.Errorf("the table says\n%v\nand this test checks\n%v", said, checked)
	}
}

// Who looks for a package of the world outside finds it in ARCHITECTURE.md.
func TestEveryPackageHasItsPlace(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### The world outside\n")
	section, _, _ = strings.Cut(section, "\n## ")
	missing := map[string]bool{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, p := range list(t, goos) {
			path, below := strings.CutPrefix(p.ImportPath, module+"/integration/")
			if below && !strings.Contains(section, "`"+path+"`") {
				missing[path] = true
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("ARCHITECTURE.md does not say what %s is for", path)
	}
}
