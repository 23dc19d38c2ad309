package index

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }

func TestRulesDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		rules   []Rule
		on, off []string // "server/tool"
		tags    map[string]string
	}{
		{name: "no rules", on: []string{"a/anything"}},
		{
			name:  "a closed tool",
			rules: []Rule{{Patterns: []string{"*delete*"}, Enabled: no()}},
			on:    []string{"a/create", "a/Delete"}, off: []string{"a/delete", "a/repo_delete_all"},
		},
		{
			name:  "any opening makes a whitelist",
			rules: []Rule{{Patterns: []string{"github_*"}, Enabled: yes()}},
			on:    []string{"a/github_list"}, off: []string{"a/gitlab_list", "a/xgithub_list"},
		},
		{
			name:  "the first opinion decides",
			rules: []Rule{{Patterns: []string{"x_*"}, Enabled: no()}, {Patterns: []string{"*"}, Enabled: yes()}},
			on:    []string{"a/y"}, off: []string{"a/x_y"},
		},
		{
			name:  "a rule without an opinion leaves it to the next",
			rules: []Rule{{Patterns: []string{"*"}, Tags: []string{"t"}}, {Patterns: []string{"x"}, Enabled: no()}},
			on:    []string{"a/y"}, off: []string{"a/x"}, tags: map[string]string{"a/x": "t", "a/y": "t"},
		},
		{
			name:  "an exclusion stands before what it excludes from",
			rules: []Rule{{Patterns: []string{"!*danger*", "*"}, Enabled: yes()}},
			on:    []string{"a/safe"}, off: []string{"a/dangerous"},
		},
		{
			name:  "an exclusion alone matches nothing",
			rules: []Rule{{Patterns: []string{"!*danger*"}, Enabled: no()}},
			on:    []string{"a/safe", "a/dangerous"},
		},
		{
			name:  "of one server",
			rules: []Rule{{Patterns: []string{"*"}, Server: "a", Enabled: no()}},
			on:    []string{"b/x"}, off: []string{"a/x"},
		},
		{
			name:  "regular expressions and their flags",
			rules: []Rule{{Patterns: []string{`/\b(read|list)\b/i`, "!/^raw/", "/^create_/"}, Enabled: yes()}},
			on:    []string{"a/do READ it", "a/create_x"}, off: []string{"a/reading", "a/xcreate_", "a/raw"},
		},
		{
			name:  "globs",
			rules: []Rule{{Patterns: []string{"a?c", "[x-z]1", "[!a-c]2", "lit.*", `st\*r`, "ü*"}, Enabled: yes()}},
			on:    []string{"s/abc", "s/y1", "s/d2", "s/lit.x", "s/st*r", "s/über"},
			off:   []string{"s/ac", "s/a1", "s/b2", "s/litx", "s/star", "s/aabc"},
		},
		{
			name: "tags add up, each once",
			rules: []Rule{
				{Patterns: []string{"*"}, Tags: []string{"all", "base"}},
				{Patterns: []string{"x*"}, Tags: []string{"x", "all"}},
			},
			on: []string{"a/x1"}, tags: map[string]string{"a/x1": "all base x", "a/y": "all base"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, err := CompileRules(c.rules)
			if err != nil {
				t.Fatal(err)
			}
			check := func(names []string, want bool) {
				for _, n := range names {
					server, tool, _ := strings.Cut(n, "/")
					if got, _ := rules.Decide(server, tool, nil); got != want {
						t.Errorf("%s: enabled %v, want %v", n, got, want)
					}
				}
			}
			check(c.on, true)
			check(c.off, false)
			for n, want := range c.tags {
				server, tool, _ := strings.Cut(n, "/")
				if _, tags := rules.Decide(server, tool, nil); strings.Join(tags, " ") != want {
					t.Errorf("%s: tags %q, want %q", n, tags, want)
				}
			}
		})
	}
}

func TestBadPatterns(t *testing.T) {
	for _, p := range []string{"[", "a[", "[]", "/(/", "/a/q", `a\`, "/(?=x)/"} {
		if _, err := CompileRules([]Rule{{Patterns: []string{p}}}); err == nil || !strings.Contains(err.Error(), "tool rule 1") {
			t.Errorf("%q: %v; want an error that names the rule", p, err)
		}
	}
}

// Rules hold for what is there and for what comes, and lending a validator
// from one catalog to the next does not lend its verdict.
func TestCatalogFollowsItsRules(t *testing.T) {
	ts := &messages.Toolset{Server: "s", Tools: []*messages.Tool{{Server: "s", Definition: &messages.Definition{Name: "read"}}, {Server: "s", Definition: &messages.Definition{Name: "write"}}}}
	rules, err := CompileRules([]Rule{{Patterns: []string{"write"}, Enabled: no(), Tags: []string{"closed"}}})
	if err != nil {
		t.Fatal(err)
	}
	var c *Catalog
	c = c.With(ts, Labels{Tags: []string{"mine"}}).Ruled(rules)
	if e := c.Server("s").Tool("write"); e.Enabled || strings.Join(e.Tags, " ") != "mine closed" {
		t.Errorf("write: enabled %v, tags %q", e.Enabled, e.Tags)
	}
	if e := c.Server("s").Tool("read"); !e.Enabled {
		t.Error("read is closed")
	}
	c = c.Without("s").With(ts, Labels{Tags: []string{"mine"}})
	if c.Server("s").Tool("write").Enabled {
		t.Error("a server that came later is not ruled")
	}
	if got := (Classic{}).Search(c, Query{Text: "write"}); len(got) != 0 {
		t.Errorf("a closed tool was found: %+v", got)
	}
	if c = c.Ruled(nil); !c.Server("s").Tool("write").Enabled || strings.Join(c.Server("s").Tool("write").Tags, " ") != "mine" {
		t.Error("the rules are gone and their verdict is not")
	}
}

func FuzzCompileRules(f *testing.F) {
	for _, p := range []string{"*", "!a[b-c]?", "/x(y)+/i", "[!", `\`, "/", "//", "!"} {
		f.Add(p, "some_tool")
	}
	f.Fuzz(func(_ *testing.T, p, tool string) {
		if r, err := CompileRules([]Rule{{Patterns: []string{p}, Enabled: no()}}); err == nil {
			r.Decide("s", tool, nil)
		}
	})
}
