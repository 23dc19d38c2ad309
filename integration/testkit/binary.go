package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

const buildTimeout = 10 * time.Minute

// A program with the race detector sleeps for a second before it ends, in case a
// goroutine that nobody waits for still has a race to show. Hundreds of processes
// end in the tests; who ends them wants to see how long they take.
const (
	raceVariable = "GORACE"
	raceSettings = "atexit_sleep_ms=0"
)

// builtVariable is a folder with what [Binary] and [PlainBinary] return and the demo
// server, below "host", "plain" and "demo", that somebody has built for the tests of
// several packages.
const builtVariable = "METAMCP_TEST_BUILT"

// What is built, as Go names it.
const (
	programPackage = "./cmd/metamcp"
	demoPackage    = "./integration/demoserver/internal/demomain"
)

// built is a binary that this test process has built, or failed to build.
type built struct {
	path string
	err  error
}

// build is what this test process has built.
var build struct {
	mu    sync.Mutex
	dir   string // made by Main
	host  built
	plain built
	demo  built
}

// Main runs the tests of a package that uses [Binary] and removes what was
// built for them: `func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }`.
func Main(m interface{ Run() int }) int {
	dir, err := os.MkdirTemp("", "metamcp-test-")
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "testkit: make a folder for the binary:", err)
		return 1
	}
	build.dir = dir
	if _, set := os.LookupEnv(raceVariable); !set {
		_ = os.Setenv(raceVariable, raceSettings)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "testkit: remove the binary:", err)
	}
	return code
}

// Binary returns the path of a metamcp binary of the present sources, with the
// race detector where the test has it. `make` has built it, or the first test that
// asks does; the others wait. It may be called from any goroutine of a test.
func Binary(tb testing.TB) string {
	tb.Helper()
	return once(tb, &build.host, "host", programPackage, raceEnabled)
}

// PlainBinary is [Binary] without the race detector, for a test of what a host
// leaves on disk, or how much it takes, when the detector makes that ten times
// slower. What races a test may find, it does not find here.
func PlainBinary(tb testing.TB) string {
	tb.Helper()
	if !raceEnabled {
		return Binary(tb)
	}
	return once(tb, &build.plain, "plain", programPackage, false)
}

// demoBinary is the demo server alone, without the race detector.
func demoBinary(tb testing.TB) string {
	tb.Helper()
	return once(tb, &build.demo, "demo", demoPackage, false)
}

// Prebuilt returns the path of what [PlainBinary] returns where `make` has built it;
// else, or where it is not there, "". A test that can do without, in a package whose
// TestMain is its own, asks for it.
func Prebuilt() string { return prebuilt("plain", programPackage) }

// PrebuiltDemo is [Prebuilt] for the demo server, which takes its flags as they are.
func PrebuiltDemo() string { return prebuilt("demo", demoPackage) }

func prebuilt(folder, pkg string) string {
	path, err := find(os.Getenv(builtVariable), folder, pkg)
	if err != nil {
		return ""
	}
	return path
}

func once(tb testing.TB, b *built, folder, pkg string, race bool) string {
	tb.Helper()
	build.mu.Lock()
	defer build.mu.Unlock()
	if build.dir == "" {
		tb.Fatal("testkit.Binary needs a TestMain that calls testkit.Main")
	}
	if b.path == "" && b.err == nil {
		b.path, b.err = find(os.Getenv(builtVariable), folder, pkg)
	}
	if b.path == "" && b.err == nil {
		b.path, b.err = buildBinary(filepath.Join(build.dir, folder), pkg, race)
	}
	if b.err != nil {
		tb.Fatal(b.err)
	}
	return b.path
}

// find returns the path of a binary that was built before the tests; "": there is
// none. That it is looked at makes go test run the tests again when it changes.
func find(dir, folder, pkg string) (string, error) {
	if dir == "" {
		return "", nil
	}
	file := filepath.Join(dir, folder, program(pkg))
	if _, err := os.Stat(file); err != nil {
		return "", fmt.Errorf("%s should hold a %s for the tests: %w", builtVariable, path.Base(pkg), err)
	}
	return file, nil
}

// program is the file that a package is built into.
func program(pkg string) string {
	name := path.Base(pkg)
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

func buildBinary(dir, pkg string, race bool) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, program(pkg))
	args := []string{"build", "-buildvcs=false", "-o", file}
	if race {
		args = append(args, "-race")
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = root
	if !race {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make vet` and `make build` compile it: the cache has it
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return file, nil
}

// ModuleRoot returns the folder of go.mod above the running test.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("there is no go.mod above the running test")
		}
		dir = parent
	}
}
