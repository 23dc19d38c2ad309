package index

import (
	"slices"
	"strconv"
	"testing"

	"github.com/metamcp/metamcp/index/vector"
	"github.com/metamcp/metamcp/messages"
)

func parsedSet(t *testing.T, server, page string) *messages.Toolset {
	t.Helper()
	tools, _, err := ParseTools(server, []byte(page))
	if err != nil {
		t.Fatal(err)
	}
	return &messages.Toolset{Server: server, Tools: tools}
}

const twinPage = `{"tools":[{"name":"b","description":"Does b.","inputSchema":{"type":"object"}},{"name":"a"}]}`

// What servers say that list the same is in memory once, and each tool stays its
// server's.
func TestServersThatListTheSameShareIt(t *testing.T) {
	tw, cat := newTwins(), (*Catalog)(nil)
	add := func(server, page string) (shared bool) {
		ts := parsedSet(t, server, page)
		like := tw.share(cat, ts)
		cat = cat.with(ts, Labels{}, like)
		return like != nil
	}
	if add("x", twinPage) {
		t.Error("the first server has a twin")
	}
	row := &embedding{"m", vector.NewRow([]float32{1})}
	cat.Server("x").Tool("b").passage.vector.Store(row)
	if !add("y", twinPage) {
		t.Error("a server that lists the same has no twin")
	}
	if add("z", `{"tools":[{"name":"b","description":"Does b too.","inputSchema":{"type":"object"}},{"name":"a"}]}`) {
		t.Error("a server that lists something else has a twin")
	}
	x, y := cat.Server("x").Tool("b"), cat.Server("y").Tool("b")
	if &x.Tool.Raw[0] != &y.Tool.Raw[0] || &x.Tool.InputSchema[0] != &y.Tool.InputSchema[0] {
		t.Error("the definition is there twice")
	}
	if x.Validator != y.Validator || y.passage.vector.Load() != row {
		t.Error("what is worked out of the definition is there twice")
	}
	if x.Tool.Server != "x" || y.Tool.Server != "y" || x.passage == y.passage {
		t.Error("a tool is not its server's any more")
	}
	if z := cat.Server("z").Tool("b"); z.passage.vector.Load() != nil {
		t.Error("a tool has the vector of one that says something else")
	}
	var order []string
	for _, e := range cat.Server("y").Entries {
		order = append(order, e.Tool.Name)
	}
	if !slices.Equal(order, []string{"b", "a"}) {
		t.Errorf("the tools are in the order %v, not in the server's", order)
	}
	tw.forget(func(server string) bool { return server == "z" })
	cat = cat.Without("x").Without("y")
	if add("w", twinPage) {
		t.Error("a server that is gone is a twin")
	}
}

// A server that lists something else each time leaves no more than a bounded number
// of hashes.
func TestTwinsStayBounded(t *testing.T) {
	tw, cat := newTwins(), (*Catalog)(nil)
	for i := range 1000 {
		ts := parsedSet(t, "x", `{"tools":[{"name":"t`+strconv.Itoa(i)+`"}]}`)
		cat = cat.with(ts, Labels{}, tw.share(cat, ts))
	}
	if n := len(tw.servers); n > 70 {
		t.Errorf("%d listings of one server are remembered", n)
	}
}

// Servers with tools that are held back are found in whatever way the catalog came
// about.
func TestHeldServers(t *testing.T) {
	held := &messages.Review{Tools: map[string]*messages.ToolReview{"a": {Held: true}}}
	cat := (*Catalog)(nil).With(parsedSet(t, "x", twinPage), Labels{}).With(parsedSet(t, "y", twinPage), Labels{Review: held})
	names := func(c *Catalog) (out []string) {
		for _, s := range c.Held() {
			out = append(out, s.Toolset.Server)
		}
		return out
	}
	if got := names(cat); !slices.Equal(got, []string{"y"}) {
		t.Errorf("held: %v", got)
	}
	if got := names(cat.With(parsedSet(t, "y", twinPage), Labels{})); got != nil {
		t.Errorf("held after the review found nothing: %v", got)
	}
}
