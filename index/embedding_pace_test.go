package index

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/messages"
)

func TestPaces(t *testing.T) {
	start := time.Unix(1000, 0)
	tools := func(server string) int { return map[string]int{"small": 3, "large": 1000}[server] }
	p := paces{}
	p.spend("small", 200, 3, start)
	p.spend("large", 4000, 1000, start)
	p.spend("gone", 10, 5, start)
	for _, c := range []struct {
		after time.Duration
		want  map[string]int
	}{
		{0, map[string]int{"small": 200, "large": 4000}},
		{paceRefill / 4, map[string]int{"small": 200 - paceLeast/4, "large": 3000}},
		{paceRefill / 2, map[string]int{"small": 200 - paceLeast/2, "large": 2000}},
		{paceRefill - 1, map[string]int{"large": 0}},
		{2 * paceRefill, map[string]int{}},
	} {
		if got := p.spent(tools, start.Add(c.after)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("after %v spent %v, want %v", c.after, got, c.want)
		}
	}
	if len(p) != 0 {
		t.Errorf("full buckets are kept: %v", p)
	}
	p.spend("small", 10, 3, start)
	if got := p.spent(tools, start.Add(-time.Hour)); got["small"] != 10 {
		t.Errorf("a clock that goes back earns %v", got)
	}
}

// cheap embeds every document as the vector of one text, so that a test can
// have hundreds embedded.
type cheap struct {
	*counting
	vector []float32
}

func (c *cheap) Embed(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	if kind == embed.Query {
		return c.counting.Embed(ctx, kind, texts)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([][]float32, len(texts))
	for i, text := range texts {
		c.texts[text]++
		out[i] = c.vector
	}
	return out, nil
}

// TestAServerThatAlwaysChangesIsPaced has a server change all its tools again
// and again. It is not embedded for ever, and others are.
func TestAServerThatAlwaysChangesIsPaced(t *testing.T) {
	inner := builtinEmbedder(t)
	one, err := inner.Embed(t.Context(), embed.Document, []string{"one"})
	if err != nil {
		t.Fatal(err)
	}
	e := &cheap{counting: inner, vector: one[0]}
	h := newHost(t, t.TempDir(), e, map[string][]string{"shop": shop, "restless": nil, "late": nil})
	h.settle()
	const tools, rounds = 60, 12
	for round := range rounds {
		defs := make([]string, tools)
		for i := range defs {
			defs[i] = definition(fmt.Sprintf("tool_%d", i), fmt.Sprintf("Says %d in round %d.", i, round), "{}")
		}
		h.sys.Send(h.pid, &messages.Listing{Server: "restless", Pages: [][]byte{[]byte(`{"tools":[` + strings.Join(defs, ",") + `]}`)}, SpecHash: "h"})
		h.settle()
	}
	st := h.settle()
	if st.Held == 0 || st.Held > tools || !st.Settled || st.Trouble != nil {
		t.Errorf("after %d changes: %+v", rounds, st)
	}
	if most := paceLeast + len(shop) + 16; st.Fresh > most {
		t.Errorf("%d vectors were made, want at most %d of %d", st.Fresh, most, rounds*tools)
	}
	matches, note, _ := NewSearcher(h.view).Search(t.Context(), Hybrid{}, Query{Text: "tool_7"})
	if len(matches) == 0 || matches[0].Entry.Tool.Name != "tool_7" || !strings.Contains(note, "by their words alone") {
		t.Errorf("found %s, note %q", found(matches), note)
	}
	h.sys.Send(h.pid, &messages.Listing{Server: "late", Pages: [][]byte{[]byte(`{"tools":[` + definition("send_fax", "Send a fax.", "{}") + `]}`)}, SpecHash: "h"})
	if after := h.settle(); after.Embedded != st.Embedded+1 {
		t.Errorf("another server's tool was not embedded: %+v, before %+v", after, st)
	}
}
