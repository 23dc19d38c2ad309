package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helperVariable names what this test binary does when it is started as a
// helper process instead of as a test.
const helperVariable = "METAMCP_STORE_HELPER"

// helpers are the things that helper processes do; args are the command's.
var helpers = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		if err := helpers[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// helperLimit is how long any helper process may take.
const helperLimit = 2 * time.Minute

// helper prepares a process that runs one of helpers.
func helper(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), helperLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), helperVariable+"="+name)
	return cmd
}

// started is a running helper whose lines of output can be awaited.
type started struct {
	*exec.Cmd
	lines <-chan string
	errs  *strings.Builder
	once  sync.Once
}

func start(t *testing.T, cmd *exec.Cmd) *started {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &started{Cmd: cmd, errs: new(strings.Builder)}
	cmd.Stderr = p.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1<<14)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	p.lines = lines
	t.Cleanup(p.kill)
	return p
}

// kill ends the helper at once (SIGKILL) and reaps it.
func (p *started) kill() {
	p.once.Do(func() {
		_ = p.Process.Kill()
		for range p.lines { // Wait demands that all is read
		}
		_ = p.Wait()
	})
}

// line returns the next line of the helper.
func (p *started) line(t *testing.T) string {
	t.Helper()
	select {
	case l, ok := <-p.lines:
		if !ok {
			p.kill()
			t.Fatalf("the helper ended early: %s", p.errs)
		}
		return l
	case <-time.After(helperLimit):
		t.Fatal("the helper says nothing")
	}
	return ""
}

// tester lets helpers and tests share code.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// panicker is the tester of helper processes.
type panicker struct{}

func (panicker) Helper() {}
func (panicker) Fatalf(f string, args ...any) {
	fmt.Fprintf(os.Stderr, f+"\n", args...)
	os.Exit(4)
}

func mustOpen(t tester, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

func mustClose(t tester, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// vector returns the n-th vector of a series, always the same.
func vector(n, dimension int, series string) Vector {
	hash := sha256.Sum256(fmt.Appendf(nil, "text %d", n))
	seed := sha256.Sum256(fmt.Appendf(nil, "%s %d", series, n))
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:]), binary.LittleEndian.Uint64(seed[8:])))
	v := Vector{Hash: hash, Values: make([]float32, dimension)}
	for i := range v.Values {
		v.Values[i] = float32(r.NormFloat64())
	}
	return v
}

func vectors(from, to, dimension int, series string) []Vector {
	out := make([]Vector, 0, to-from)
	for n := from; n < to; n++ {
		out = append(out, vector(n, dimension, series))
	}
	return out
}

// present says which vectors of a series are stored, and fails where one is not
// equal to what was put.
func present(t tester, s *Store, model string, n, dimension int, series string) []bool {
	t.Helper()
	want := vectors(0, n, dimension, series)
	hashes := make([][32]byte, n)
	for i := range want {
		hashes[i] = want[i].Hash
	}
	out := make([]bool, n)
	found, err := s.Vectors(model, hashes, func(i int, v []float32) {
		if !slices.Equal(v, want[i].Values) {
			t.Fatalf("vector %d of %q is not the one that was put", i, model)
		}
		out[i] = true
	})
	if err != nil {
		t.Fatalf("Vectors: %v", err)
	}
	if count := countTrue(out); count != found {
		t.Fatalf("Vectors says %d, and called %d times", found, count)
	}
	return out
}

func countTrue(flags []bool) (n int) {
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n
}

func mustPut(t tester, s *Store, model string, items []Vector) {
	t.Helper()
	if err := s.PutVectors(model, items); err != nil {
		t.Fatalf("PutVectors: %v", err)
	}
}

func mustPutListings(t tester, s *Store, listings map[string][]byte) {
	t.Helper()
	if err := s.PutListings(listings); err != nil {
		t.Fatalf("PutListings: %v", err)
	}
}

func readListings(t tester, s *Store) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	if err := s.Listings(func(server string, raw []byte) error {
		out[server] = raw
		return nil
	}); err != nil {
		t.Fatalf("Listings: %v", err)
	}
	return out
}

// text returns size bytes that do not repeat.
func text(size int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, size)
	for i := range out {
		out[i] = byte('a' + r.IntN(26))
	}
	return out
}

// snapshot returns the bytes of all files below path.
func snapshot(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := filepath.Walk(path, func(name string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name) //nolint:gosec // the test's own folder
		files[name] = info.ModTime().String() + string(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// dataOf returns badger's folder in a store.
func dataOf(t tester, path string) string {
	t.Helper()
	current, _, err := (&folder{path: path}).data()
	if err != nil || current == "" {
		t.Fatalf("no data in %s: %v", path, err)
	}
	return current
}
