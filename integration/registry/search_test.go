package registry_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
)

func TestSearchOfSeveralWords(t *testing.T) {
	fake := fakeregistry.Start(t,
		fakeregistry.Server("io.github.a/github", "1.0.0", "GitHub", "@a/github"),
		fakeregistry.Server("io.github.b/issues", "1.0.0", "Issues", "@b/issues"),
		fakeregistry.Server("io.github.c/jira-issues-sync", "1.0.0", "Jira issues", "@c/jira"),
		fakeregistry.Server("io.github.d/weather", "1.0.0", "Weather", "@d/weather"))
	c := open(t, registry.Options{BaseURL: fake.URL})
	for _, tt := range []struct {
		text string
		want []string // in this order
	}{
		{"weather", []string{"io.github.d/weather"}},
		{"jira issues, please", []string{"io.github.c/jira-issues-sync", "io.github.b/issues"}},
		{"@d/weather", []string{"io.github.d/weather"}},
		{"use @d/weather@1.0.0", []string{"io.github.d/weather"}},
		{"submarine", nil},
		{"submarine periscope", nil},
		{"use @modelcontextprotocol/server-everything", []string{"@modelcontextprotocol/server-everything"}},
		{"mcp-server-git", []string{"mcp-server-git"}},
	} {
		a, err := c.Search(t.Context(), registry.Query{Search: tt.text})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(a); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
		if named := len(tt.want) > 0 && !strings.HasPrefix(tt.want[0], "io."); named != strings.Contains(strings.Join(a.Notes, ""), "is from the built-in list") {
			t.Errorf("%q: notes %q", tt.text, a.Notes)
		}
	}
	before := len(fake.Requests())
	if _, err := c.Search(t.Context(), registry.Query{Search: "one two three four five six seven eight nine"}); err != nil {
		t.Fatal(err)
	}
	if n := len(fake.Requests()) - before; n != 5 {
		t.Errorf("%d requests for nine words, want the text and four of them", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Search(ended, registry.Query{Search: "a b"}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestSearchOffline(t *testing.T) {
	fake := fakeregistry.Start(t)
	fake.Close()
	a, err := open(t, registry.Options{BaseURL: fake.URL}).Search(t.Context(), registry.Query{Search: "search files in a folder, or messages on slack", Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(a); len(got) == 0 || len(got) > 5 || a.Source != registry.FromBuiltin || a.Complete || a.Cause == nil || !slices.Contains(got, "@modelcontextprotocol/server-filesystem") {
		t.Errorf("%q: %+v", got, a)
	}
}
