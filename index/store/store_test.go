package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestVectorsSurviveReopening(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", "cat[alog")
	s := mustOpen(t, path, Options{})
	mustPut(t, s, "a", vectors(0, 500, 48, "a"))
	mustPut(t, s, "b/x", vectors(0, 20, 7, "b"))
	mustClose(t, s)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	for range 2 {
		s = mustOpen(t, path, Options{})
		if s.Rebuilt() != "" {
			t.Fatalf("rebuilt: %s", s.Rebuilt())
		}
		if n := countTrue(present(t, s, "a", 600, 48, "a")); n != 500 {
			t.Errorf("model a has %d", n)
		}
		if n := countTrue(present(t, s, "b/x", 20, 7, "b")); n != 20 {
			t.Errorf("model b/x has %d", n)
		}
		if n := countTrue(present(t, s, "b", 20, 7, "b")); n != 0 {
			t.Errorf("model b has %d", n)
		}
		mustClose(t, s)
	}
}

// TestSparseLookup asks for few of many, many of few, the same twice, and none.
func TestSparseLookup(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	defer mustClose(t, s)
	items := vectors(0, 2000, 4, "s")
	mustPut(t, s, "m", items)
	h := func(n int) [32]byte { return vector(n, 4, "s").Hash }
	for _, test := range []struct {
		name string
		ask  [][32]byte
		want []int
	}{
		{"none", nil, nil},
		{"one", [][32]byte{h(7)}, []int{0}},
		{"unknown", [][32]byte{h(5000)}, nil},
		{"twice", [][32]byte{h(3), h(5001), h(3)}, []int{0, 2}},
		{"lowest and highest", [][32]byte{{}, h(1), [32]byte(bytes.Repeat([]byte{255}, 32)), h(2)}, []int{1, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []int
			n, err := s.Vectors("m", test.ask, func(i int, v []float32) {
				got = append(got, i)
				at := slices.IndexFunc(items, func(x Vector) bool { return x.Hash == test.ask[i] })
				if !slices.Equal(v, items[at].Values) {
					t.Errorf("hash %d has another vector", i)
				}
			})
			slices.Sort(got)
			if err != nil || n != len(test.want) || !slices.Equal(got, test.want) {
				t.Errorf("found %d %v, want %v, %v", n, got, test.want, err)
			}
		})
	}
}

func TestPutVectorsRefuses(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	defer mustClose(t, s)
	ok := []float32{1, 2}
	for name, test := range map[string]struct {
		model string
		items []Vector
	}{
		"no numbers":      {"m", []Vector{{}}},
		"two dimensions":  {"m", []Vector{{Values: ok}, {Values: ok[:1]}}},
		"not a number":    {"m", []Vector{{Values: []float32{1, float32(math.NaN())}}}},
		"infinite":        {"m", []Vector{{Values: []float32{1, float32(math.Inf(-1))}}}},
		"too long":        {"m", []Vector{{Values: make([]float32, MaxDimension+1)}}},
		"no model":        {"", []Vector{{Values: ok}}},
		"a huge model":    {strings.Repeat("m", MaxModelName+1), []Vector{{Values: ok}}},
		"huge and broken": {strings.Repeat("m", MaxModelName+1), []Vector{{}}},
	} {
		if err := s.PutVectors(test.model, test.items); err == nil || errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustPut(t, s, "m", []Vector{{Values: ok}})
	mustPut(t, s, "big", []Vector{{Values: make([]float32, MaxDimension)}})
	if n := countTrue(present(t, s, "m", 1, 2, "")); n != 0 {
		t.Error("a vector that was never put is there")
	}
}

// TestNamesDoNotCollide puts models and servers with names that might share keys.
func TestNamesDoNotCollide(t *testing.T) {
	t.Parallel()
	names := []string{
		"a", "A", "a/b", "a%2Fb", "a/", "/a", "a#", "#a", "ä", "a\x00b", "a\xffb", " ", "..", "voyage-3-lite", "v1/vector/a",
		strings.Repeat("x", 511), strings.Repeat("x", 512), strings.Repeat("x", 513), strings.Repeat("x", 514), strings.Repeat("/", 300),
		safe(strings.Repeat("x", 513)),
	}
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	want := map[string][]byte{"": []byte("no name")}
	for i, name := range names {
		mustPut(t, s, name, []Vector{{Values: []float32{float32(i)}}})
		want[name] = []byte(name)
	}
	mustPutListings(t, s, want)
	mustClose(t, s)
	s = mustOpen(t, path, Options{})
	defer mustClose(t, s)
	for i, name := range names {
		got := float32(-1)
		if n, err := s.Vectors(name, make([][32]byte, 1), func(_ int, v []float32) { got = v[0] }); n != 1 || err != nil || got != float32(i) {
			t.Errorf("%.40q: found %d, %v, want %d (%v)", name, n, got, i, err)
		}
	}
	if got := readListings(t, s); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("listings: %q", got)
	}
}

func TestListings(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	want := map[string][]byte{
		"empty": {}, "small": []byte("{}"), "exact": text(partSize, 1), "parts": text(3*partSize+5, 2), "large": text(9<<20, 3),
	}
	mustPutListings(t, s, want)
	want["parts"] = text(partSize+1, 4) // fewer parts than before
	want["small"] = text(2*partSize, 5) // more
	mustPutListings(t, s, map[string][]byte{"parts": want["parts"], "small": want["small"], "exact": want["exact"]})
	mustClose(t, s)
	s = mustOpen(t, path, Options{})
	defer mustClose(t, s)
	if got := readListings(t, s); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Error("the listings are not those that were put")
	}
	if n, err := s.DeleteListings(func(server string, _ []byte) bool { return server != "large" && server != "empty" }); n != 2 || err != nil {
		t.Errorf("DeleteListings: %d, %v", n, err)
	}
	delete(want, "large")
	delete(want, "empty")
	if got := readListings(t, s); !maps.EqualFunc(got, want, bytes.Equal) {
		t.Error("other listings than the refused ones went")
	}
	if err := s.PutListings(map[string][]byte{"x": make([]byte, MaxListing+1)}); err == nil {
		t.Error("a listing that is too large was taken")
	}
	enough := errors.New("enough")
	if err := s.Listings(func(string, []byte) error { return enough }); err != enough { //nolint:errorlint // it must come back as it is
		t.Errorf("the callback's error became %v", err)
	}
}

// TestCallersPanicStaysOne makes sure that a fault of the caller's is not taken
// for one of the database's.
func TestCallersPanicStaysOne(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	defer mustClose(t, s)
	mustPut(t, s, "m", vectors(0, 1, 2, "s"))
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v", p)
		}
	}()
	_, _ = s.Vectors("m", [][32]byte{vector(0, 2, "s").Hash}, func(int, []float32) { panic("mine") })
	t.Error("the panic was swallowed")
}

func TestDimensionChange(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	defer mustClose(t, s)
	mustPut(t, s, "m", vectors(0, 10, 8, "old"))
	mustPut(t, s, "m", vectors(0, 4, 6, "new"))
	got := 0
	hashes := make([][32]byte, 10)
	for i := range hashes {
		hashes[i] = vector(i, 1, "").Hash
	}
	if n, err := s.Vectors("m", hashes, func(_ int, v []float32) {
		if len(v) == 6 {
			got++
		}
	}); n != 4 || got != 4 || err != nil {
		t.Fatalf("found %d, %d of the new dimension, %v", n, got, err)
	}
	if st, err := s.Stats(); err != nil || st.Damaged != 6 {
		t.Errorf("damaged: %d, %v", st.Damaged, err)
	}
	mustPut(t, s, "other", vectors(0, 1, 2, "")) // any write deletes them
	if st, err := s.Stats(); err != nil || st.Models[0].Vectors != 4 {
		t.Errorf("of the old dimension are left: %+v, %v", st.Models, err)
	}
}

// TestDamagedRecords puts records that are not sound under badger's own
// checksums, and finds them absent, counted and deleted.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	defer mustClose(t, s)
	mustPut(t, s, "m", vectors(0, 5, 8, "s"))
	want := map[string][]byte{"one": []byte("1"), "two": text(2*partSize, 1), "three": text(2*partSize, 1)}
	mustPutListings(t, s, want)

	key := func(n int) []byte { h := vector(n, 8, "s").Hash; return append(under(vectorPrefix, "m"), h[:]...) }
	flipped := encodeVector(key(1), vector(1, 8, "s").Values)
	flipped[20] ^= 1
	part := append(under(toolsPrefix, "three"), 0, 1) // of another listing of the same length
	other := encodePayload(part, kindListing, 2, append([]byte{0, 0, 16, 0, 9, 9, 9, 9}, text(partSize, 7)...))
	raw := map[string][]byte{
		string(key(0)): nil,
		string(key(1)): flipped,
		string(key(2)): encodeVector(key(1), vector(2, 8, "s").Values), // under another's key
		string(key(3)): encodePayload(key(3), 'X', 8, make([]byte, 32)),
		string(append(under(toolsPrefix, "two"), 0, 1)): []byte("garbage"),
		string(part):                  other,
		"v1/tools/":                   []byte("garbage"),
		"v1/tools/x/y":                []byte("garbage"),
		"v1/model/broken":             []byte("garbage"),
		"v1/vector/short":             []byte("garbage"),
		"v1/vector/nobody/0123456789": []byte("garbage"),
	}
	if err := s.write("test", 0, func(b batch) error {
		for k, v := range raw {
			if err := b.Set([]byte(k), v); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := present(t, s, "m", 5, 8, "s"); !slices.Equal(got, []bool{false, false, false, false, true}) {
		t.Errorf("present: %v", got)
	}
	if got := readListings(t, s); len(got) != 1 || string(got["one"]) != "1" {
		t.Errorf("%d listings", len(got))
	}
	st, err := s.Stats()
	if err != nil || st.Damaged < 8 || st.Listings != 1 {
		t.Errorf("stats: %+v, %v", st, err)
	}
	if _, err := s.Sweep("m", nil, grace); err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, "m", vectors(0, 1, 8, "s")) // deletes the rest
	if st, err = s.Stats(); err != nil || st.Models[0].Vectors != 2 {
		t.Errorf("stats: %+v, %v", st, err)
	}
}

// grace is how long the tests keep the vectors of a model that is not in use.
const grace = 7 * 24 * time.Hour

func TestSweep(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	path := t.TempDir()
	o := Options{Now: func() time.Time { return now }}
	s := mustOpen(t, path, o)
	mustPut(t, s, "old", vectors(0, 10, 4, "o"))
	now = now.Add(6 * 24 * time.Hour)
	mustPut(t, s, "new", vectors(0, 10, 4, "n"))
	gone := vector(3, 4, "n").Hash
	swept, err := s.Sweep("new", func(h [32]byte) bool { return h != gone }, grace)
	if err != nil || swept.Vectors != 1 || len(swept.Models) != 0 {
		t.Fatalf("swept %+v, %v", swept, err)
	}
	if got := present(t, s, "new", 10, 4, "n"); countTrue(got) != 9 || got[3] {
		t.Errorf("present: %v", got)
	}
	if st, err := s.Stats(); err != nil || len(st.Models) != 2 || st.Models[1].Model != "old" || st.Models[1].Vectors != 10 {
		t.Errorf("in its time of grace the old model has %+v, %v", st.Models, err)
	}
	mustClose(t, s)
	now = now.Add(2 * 24 * time.Hour)
	s = mustOpen(t, path, o)
	defer func() { mustClose(t, s) }()
	if swept, err = s.Sweep("", nil, grace); err != nil || !slices.Equal(swept.Models, []string{"old"}) {
		t.Fatalf("swept %+v, %v", swept, err)
	}
	if n := countTrue(present(t, s, "old", 10, 4, "o")); n != 0 {
		t.Errorf("the old model has %d", n)
	}
	if n := countTrue(present(t, s, "new", 10, 4, "n")); n != 9 {
		t.Errorf("the new model has %d", n)
	}
	// A model that is swept every hour is in use, however long ago it was put.
	for range 10 {
		now = now.Add(24 * time.Hour)
		if swept, err = s.Sweep("new", nil, grace); err != nil || swept.Vectors+len(swept.Models) != 0 {
			t.Fatalf("swept %+v, %v", swept, err)
		}
	}
	mustClose(t, s)
	s = mustOpen(t, path, o)
	st, err := s.Stats()
	if err != nil || len(st.Models) != 1 || st.Models[0].Vectors != 9 || !st.Models[0].LastUse.Equal(now) {
		t.Errorf("stats: %+v, %v", st, err)
	}
}

// A host that embeds nothing new, and ends before the first sweep, uses its model all the same.
func TestAModelWhoseVectorsAreReadIsInUse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	path := t.TempDir()
	o := Options{Now: func() time.Time { return now }}
	s := mustOpen(t, path, o)
	mustPut(t, s, "read", vectors(0, 10, 4, "r"))
	mustPut(t, s, "unread", vectors(0, 10, 4, "u"))
	for range 3 {
		mustClose(t, s)
		now = now.Add(grace - time.Hour)
		s = mustOpen(t, path, o)
		if n := countTrue(present(t, s, "read", 10, 4, "r")); n != 10 {
			t.Errorf("at %v the model has %d", now, n)
		}
		present(t, s, "none", 1, 4, "")
	}
	defer func() { mustClose(t, s) }()
	swept, err := s.Sweep("", nil, grace)
	if err != nil || !slices.Equal(swept.Models, []string{"unread"}) {
		t.Errorf("swept %+v, %v", swept, err)
	}
	st, err := s.Stats()
	if err != nil || len(st.Models) != 1 || !st.Models[0].LastUse.Equal(now) {
		t.Errorf("stats: %+v, %v", st, err)
	}
}

func TestStatsAndExport(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	mustPut(t, s, "m", vectors(0, 100, 16, "s"))
	mustPutListings(t, s, map[string][]byte{"srv": text(1000, 1)})
	present(t, s, "m", 130, 16, "s")
	mustClose(t, s)
	s = mustOpen(t, path, Options{})
	defer mustClose(t, s)
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	m := st.Models[0]
	if len(st.Models) != 1 || m.Model != "m" || m.Dimension != 16 || m.Vectors != 100 || m.Bytes < 100*(64+12) || m.Hits != 100 || m.Misses != 30 {
		t.Errorf("model: %+v", m)
	}
	if st.Listings != 1 || st.ListingBytes != 1000 || st.Damaged != 0 || st.Rebuilt != "" || st.SchemaVersion != 1 || st.Path != path {
		t.Errorf("stats: %+v", st)
	}
	if st.DiskBytes < 7000 || st.DiskBytes > 2<<20 {
		t.Errorf("%d bytes on disk", st.DiskBytes)
	}
	for _, full := range []bool{false, true} {
		var out bytes.Buffer
		if err := s.Export(&out, ExportOptions{Vectors: full}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 101 || lines[0] != `{"kind":"listing","server":"srv","bytes":1000}` {
			t.Errorf("%d lines, the first %s", len(lines), lines[0])
		}
		for _, l := range lines[1:] {
			var line exportLine
			if err := json.Unmarshal([]byte(l), &line); err != nil || line.Model != "m" || len(line.Hash) != 64 || line.Dimension != 16 ||
				(len(line.Vector) == 16) != full {
				t.Fatalf("line %s: %v", l, err)
			}
		}
	}
	broken := errors.New("broken pipe")
	if err := s.Export(failingWriter{broken}, ExportOptions{}); !errors.Is(err, broken) {
		t.Errorf("the writer's error became %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestReadsDuringWrites reads from several goroutines while another writes and
// sweeps; a vector is seen whole or not at all.
func TestReadsDuringWrites(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	mustPut(t, s, "m", vectors(0, 100, 64, "s"))
	mustPutListings(t, s, map[string][]byte{"srv": text(partSize*2, 1)})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				if n := countTrue(present(t, s, "m", 100, 64, "s")); n != 100 {
					t.Errorf("of the vectors that always are there %d are", n)
				}
				if got := readListings(t, s); len(got["srv"]) != partSize*2 {
					t.Errorf("the listing has %d bytes", len(got["srv"]))
				}
				if _, err := s.Stats(); err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 12 {
		mustPut(t, s, "m", vectors(100+i*300, 400+i*300, 64, "s"))
		mustPutListings(t, s, map[string][]byte{"srv": text(partSize*2, uint64(i))})
		keep := map[[32]byte]bool{}
		for n := range 100 {
			keep[vector(n, 1, "").Hash] = true
		}
		if _, err := s.Sweep("m", func(h [32]byte) bool { return keep[h] }, grace); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	readers.Wait()
	mustClose(t, s)
}

func TestUseAfterClose(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, t.TempDir(), Options{})
	mustClose(t, s)
	mustClose(t, s)
	_, vectorsErr := s.Vectors("m", make([][32]byte, 1), nil)
	_, sweepErr := s.Sweep("m", nil, 0)
	_, compactErr := s.Compact()
	_, statsErr := s.Stats()
	_, deleteErr := s.DeleteListings(func(string, []byte) bool { return true })
	for i, err := range []error{
		vectorsErr, sweepErr, compactErr, statsErr, deleteErr, s.PutVectors("m", vectors(0, 1, 1, "")),
		s.PutListings(map[string][]byte{"a": nil}), s.Listings(nil), s.Export(nil, ExportOptions{}),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
