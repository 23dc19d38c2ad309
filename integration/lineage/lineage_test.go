package lineage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/lineage"
)

func file(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// passed is the chain that a process finds which got this one's environment.
func passed(t *testing.T, c lineage.Chain, environ ...string) lineage.Chain {
	t.Helper()
	found := slices.DeleteFunc(c.Into(environ), func(kv string) bool { return !strings.HasPrefix(kv, lineage.Var+"=") })
	if len(found) != 1 {
		t.Fatalf("the chain is there as %q", found)
	}
	return lineage.Parse(strings.TrimPrefix(found[0], lineage.Var+"="))
}

func TestChainIsHandedDown(t *testing.T) {
	a, b := file(t, "a:b;c.json"), file(t, "b.json")
	first := passed(t, lineage.Chain{}.Behind(a, "one"), "PATH=/bin", lineage.Var+"=", lineage.Var+"=x")
	second := passed(t, first.Behind(b, "two"))
	if first.Depth != 1 || second.Depth != 2 || first.Has(b, "two") {
		t.Errorf("%+v, %+v", first, second)
	}
	for _, c := range []struct {
		file, server string
		want         bool
	}{{a, "one", true}, {b, "two", true}, {a, "two", false}, {b, "one", false}, {"", "one", false}} {
		if got := second.Has(c.file, c.server); got != c.want {
			t.Errorf("%q of %s is in the chain: %t", c.server, c.file, got)
		}
	}
	if way := second.Way(); !strings.Contains(way, `"one" of `) || !strings.Contains(way, `, then "two" of `) {
		t.Errorf("the way is %q", way)
	}
}

func TestWhicheverWayLeadsToTheFile(t *testing.T) {
	own := file(t, "own.json")
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	hard := filepath.Join(filepath.Dir(own), "hard.json")
	if err := os.Link(own, hard); err != nil {
		t.Fatal(err)
	}
	for _, began := range []string{own, link, hard} {
		for _, reads := range []string{own, link, hard} {
			if !(lineage.Chain{}).Behind(began, "x").Has(reads, "x") {
				t.Errorf("%s is not %s", reads, began)
			}
		}
	}
}

// One pipe has the name of another, and a file that is being replaced has its own.
func TestFilesThatAreNone(t *testing.T) {
	if (lineage.Chain{}).Behind(os.DevNull, "x").Has(os.DevNull, "x") {
		t.Error("a device is taken for the one before")
	}
	gone := filepath.Join(t.TempDir(), "gone.json")
	if !(lineage.Chain{}).Behind(gone, "x").Has(gone, "x") {
		t.Error("a file that is being replaced is not known again")
	}
}

func TestWith(t *testing.T) {
	a, b := file(t, "a.json"), file(t, "b.json")
	one, two := lineage.Chain{}.Behind(a, "x").Behind(a, "y"), lineage.Chain{}.Behind(a, "x").Behind(b, "z")
	both := one.With(two)
	if both.Depth != 2 || len(both.Entries) != 3 || !both.Has(b, "z") || one.Has(b, "z") {
		t.Errorf("%+v", both)
	}
}

func TestBounds(t *testing.T) {
	var c lineage.Chain
	for i := range 1000 {
		c = passed(t, c.Behind("/x", fmt.Sprint(i)).With(lineage.Chain{}.Behind("/y", fmt.Sprint(i))))
	}
	if len(c.Entries) > 64 || c.Depth != 1000 {
		t.Errorf("%d entries, depth %d", len(c.Entries), c.Depth)
	}
	for _, text := range []string{"", "x", "/a/b.json:/c/d.json", `[]`, `{"depth":"1"}`, `{"depth":-1}`} {
		if got := lineage.Parse(text); got.Depth != 0 || len(got.Entries) != 0 {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
