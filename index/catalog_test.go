package index

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/messages"
)

func TestCatalogIsASortedMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := map[string]int{}
		var c *Catalog
		var snapshots []*Catalog
		var sizes []int
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			name := fmt.Sprintf("s%d", rapid.IntRange(0, 300).Draw(t, "server"))
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				delete(model, name)
				c = c.Without(name)
			} else {
				n := rapid.IntRange(0, 3).Draw(t, "tools")
				ts := &messages.Toolset{Server: name}
				for i := range n {
					ts.Tools = append(ts.Tools, &messages.Tool{Server: name, Definition: &messages.Definition{Name: fmt.Sprint("t", i)}})
				}
				model[name] = n
				c = c.With(ts, Labels{})
			}
			snapshots, sizes = append(snapshots, c), append(sizes, len(model))
		}
		tools, names := 0, []string{}
		for name, n := range model {
			names = append(names, name)
			tools += n
			if s := c.Server(name); s == nil || s.Toolset.Server != name || len(s.Entries) != n {
				t.Fatalf("server %s is wrong: %+v", name, s)
			}
		}
		slices.Sort(names)
		got := []string{}
		for s := range c.All() {
			got = append(got, s.Toolset.Server)
		}
		if !slices.Equal(got, names) || c.Servers() != len(model) || c.Tools() != tools {
			t.Fatalf("walked %v, want %v; %d servers, %d tools", got, names, c.Servers(), c.Tools())
		}
		for i, s := range snapshots {
			if s.Servers() != sizes[i] {
				t.Fatalf("snapshot %d changed from %d to %d servers", i, sizes[i], s.Servers())
			}
			n := 0
			for range s.All() {
				n++
			}
			if n != sizes[i] {
				t.Fatalf("snapshot %d walks %d servers, want %d", i, n, sizes[i])
			}
		}
	})
}

func TestCatalogKeepsTheChildsOrderAndPagesSmall(t *testing.T) {
	var c *Catalog
	for i := range 2000 {
		c = c.With(&messages.Toolset{Server: fmt.Sprintf("s%04d", i)}, Labels{})
	}
	for _, page := range c.pages {
		if len(page) == 0 || len(page) > pageSize {
			t.Fatalf("a page of %d servers", len(page))
		}
	}
	c = c.With(toolset(t, "s0100", definition("zeta", "", "{}"), definition("alpha", "", "{}")), Labels{Tags: []string{"work"}})
	s := c.Server("s0100")
	if s.Entries[0].Tool.Name != "zeta" || s.Entries[1].Tool.Name != "alpha" {
		t.Error("the child's order is lost")
	}
	e := c.Server("s0100").Tool("alpha")
	if e == nil || !e.Enabled || !slices.Equal(e.Tags, []string{"work"}) {
		t.Errorf("entry %+v", e)
	}
	if c.Server("s0100").Tool("Alpha") != nil || c.Server("none").Tool("alpha") != nil || c.Server("") != nil {
		t.Error("found what is not there")
	}
}

// A program may write any name as an identifier, where one tool alone is meant.
func TestToolsByIdentifier(t *testing.T) {
	var c *Catalog
	list := toolset(t, "s", definition("get-sum", "", `{"type":"object"}`), definition("two-ways", "", `{"type":"object"}`), definition("two.ways", "", `{"type":"object"}`), definition("odd näme/😀.1", "", `{"type":"object"}`), definition("plain", "", `{"type":"object"}`))
	c = c.With(list, Labels{})
	for identifier, want := range map[string]string{
		"get_sum": "get-sum", "odd_n_me____1": "odd näme/😀.1", "two_ways": "", "plain": "", "none": "", "get-sum": "",
	} {
		got := ""
		if e := c.Server("s").ByIdentifier(identifier); e != nil {
			got = e.Tool.Name
		}
		if got != want {
			t.Errorf("%q means %q, want %q", identifier, got, want)
		}
	}
}

func TestCatalogKeepsValidatorsOfUnchangedSchemas(t *testing.T) {
	var c *Catalog
	c = c.With(toolset(t, "s", definition("same", "old words", browserSchema), definition("changed", "", `{"type":"object"}`)), Labels{})
	old := c
	c = c.With(toolset(t, "s", definition("same", "new words", browserSchema), definition("changed", "", `{"type":"object","required":["a"]}`)), Labels{})
	if c.Server("s").Tool("same").Validator != old.Server("s").Tool("same").Validator {
		t.Error("an equal schema is compiled again")
	}
	if c.Server("s").Tool("same").Tool.Description != "new words" || old.Server("s").Tool("same").Tool.Description != "old words" {
		t.Error("descriptions are mixed up")
	}
	if len(c.Server("s").Tool("changed").Validator.Validate(json.RawMessage(`{}`))) != 1 {
		t.Error("the old schema still judges")
	}
}

func TestCatalogTakesTheFirstOfDoubles(t *testing.T) {
	first := &messages.Tool{Definition: &messages.Definition{Name: "a", Description: "first"}}
	var c *Catalog
	c = c.With(&messages.Toolset{Server: "s", Tools: []*messages.Tool{first, nil, {Definition: &messages.Definition{Name: "a"}}}}, Labels{})
	if c.Server("s").Tool("a").Tool != first || len(c.Server("s").Entries) != 1 || c.Tools() != 1 {
		t.Error("doubles are not left out")
	}
}

func TestHaystack(t *testing.T) {
	var b haystackBuilder
	for _, s := range []string{"", "aba", "", "xaxa", "b\x00a", ""} {
		b.add(s)
	}
	h := b.done()
	for word, want := range map[string]string{"a": "[1 3 4]", "x": "[3]", "b a": "[4]", "ab": "[1]", "q": "[]", "aba": "[1]"} {
		got := []int{}
		h.each(word, func(i int) { got = append(got, i) })
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", word, got, want)
		}
	}
	(haystack{}).each("a", func(int) { t.Error("found in nothing") })
	if strings.Count(h.text, "\x00") != len(h.ends) {
		t.Error("the zero bytes are not one each")
	}
}

func BenchmarkCatalogWith(b *testing.B) {
	c := generated(b, 10_000)
	ts := toolset(b, "server-05000", definition("create_issue", "Creates an issue.", browserSchema))
	b.ReportAllocs()
	for b.Loop() {
		c.With(ts, Labels{})
	}
}

func BenchmarkCatalogTool(b *testing.B) {
	c := generated(b, 10_000)
	name := c.Server("server-05000").Entries[3].Tool.Name
	for b.Loop() {
		if c.Server("server-05000").Tool(name) == nil {
			b.Fatal("not found")
		}
	}
}
