package metamcp

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// strictName is what clients take that are strict about names.
var strictName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

var properName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Names are proper and no two are the same, and nothing is without one; they do not hang on
// the order in which servers are looked at; as long as a thing is there, nothing else gets a
// name that it had. That also holds for names chosen to be those of others, hashed or not.
func TestExposedNames(t *testing.T) {
	word := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "a__b", "b__c", "c", "mcp_call", "x.y", "x y", "ü", strings.Repeat("l", 70)}), rapid.StringN(1, 80, 300))
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{kindTool, "prompt"}).Draw(t, "kind")
		n := &naming{plain: rapid.Bool().Draw(t, "plain"), ours: map[string]bool{"mcp_call": true}, log: slog.New(slog.DiscardHandler)}
		seen := map[owner]bool{}
		var things []thing
		add := func(o owner) {
			if !seen[o] {
				seen[o] = true
				things = append(things, thing{server: o.server, name: o.name, raw: json.RawMessage(`{}`), closed: rapid.Bool().Draw(t, "closed")})
			}
		}
		for range rapid.IntRange(0, 8).Draw(t, "count") {
			add(owner{word.Draw(t, "server"), word.Draw(t, "name")})
		}
		for range rapid.IntRange(0, 6).Draw(t, "hostile") {
			if len(things) == 0 {
				break
			}
			of := rapid.SampledFrom(things).Draw(t, "of")
			as := prefixed(of.server, of.name)
			name := rapid.SampledFrom([]string{as, hashed(as, of.server, of.name), hashed(of.name, of.server, of.name)}).Draw(t, "as")
			server := word.Draw(t, "server")
			if before, after, ok := strings.Cut(name, "__"); ok && before != "" && after != "" && rapid.Bool().Draw(t, "cut") {
				server, name = before, after // it has the name with its server's
			}
			add(owner{server, name})
		}
		set := n.name(kind, things)
		if len(set.owners) != len(things) {
			t.Fatalf("%d names for %d things: %v", len(set.owners), len(things), set.owners)
		}
		for as, o := range set.owners {
			own := n.plain && as == o.name && (kind != kindTool || strictName.MatchString(as))
			if n.ours[as] || !properName.MatchString(as) && !own {
				t.Errorf("%q is called %q", o, as)
			}
		}
		again := n.name(kind, rapid.Permutation(things).Draw(t, "order"))
		if !maps.Equal(again.owners, set.owners) || again.sum() != set.sum() {
			t.Errorf("in another order they are called %v, not %v", again.owners, set.owners)
		}
		some := func(label string) map[string]owner {
			left := slices.DeleteFunc(slices.Clone(things), func(thing) bool { return rapid.Bool().Draw(t, label) })
			return n.name(kind, left).owners
		}
		before, after := some("not before"), some("not after")
		there := slices.Collect(maps.Values(after))
		for as, o := range before {
			if now, ok := set.owners[as]; ok && now != o {
				t.Errorf("%q was %v and is %v among all", as, o, now)
			}
			if now, ok := after[as]; ok && now != o && slices.Contains(there, o) {
				t.Errorf("%q was %v and is %v, and the first is still there", as, o, now)
			}
		}
	})
}

// A server that lists what others' tools would be called gets the calls of none.
func TestNamesOfOthersAreNotTaken(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	pay := hashed("bank__pay", "bank", "pay")
	n := &naming{plain: true, log: log}
	set := n.name(kindTool, []thing{{server: "aaa", name: "pay"}, {server: "aaa", name: "bank__pay"}, {server: "aaa", name: pay}, {server: "bank", name: "pay"}})
	if set.owners[pay] != (owner{"bank", "pay"}) || len(set.owners) != 4 {
		t.Errorf("without prefix: %v", set.owners)
	}
	set = n.name(kindTool, []thing{{server: "aaa", name: "bank__pay"}, {server: "bank", name: "pay"}})
	if !maps.Equal(set.owners, map[string]owner{"pay": {"bank", "pay"}, "aaa__bank__pay": {"aaa", "bank__pay"}}) {
		t.Errorf("a name that another one has as soon as its own is taken: %v", set.owners)
	}
	n = &naming{log: log}
	set = n.name(kindTool, []thing{{server: "a__bank", name: "pay"}, {server: "a", name: "bank__pay"}, {server: "a", name: hashed("bank__pay", "a__bank", "pay")}})
	if as := hashed("a__bank__pay", "a__bank", "pay"); set.owners[as] != (owner{"a__bank", "pay"}) || len(set.owners) != 3 {
		t.Errorf("with prefix: %v", set.owners)
	}
	for _, name := range []string{"report_20260131", "on_deadbeef", "x_0123456789abcde", "x_0123456789ABCDEF", "x-0123456789abcdef", "0123456789abcdef", "x.y_0123456789abcdef"} {
		if as := ownName("s", name); as != name {
			t.Errorf("%s, which nothing hashed is called, becomes %s", name, as)
		}
	}
}

// Of two things with the same hash, neither is taken for the other, and that is told.
func TestNamesWithTheSameHash(t *testing.T) {
	var said bytes.Buffer
	n := &naming{log: slog.New(slog.NewTextHandler(&said, nil))}
	long := strings.Repeat("x", maxExposedName)
	// No server can be called so; it has the hash of the other one at no cost.
	set := n.name(kindTool, []thing{{server: long, name: "b\x00c"}, {server: long + "\x00b", name: "c"}, {server: "s", name: "c"}, {server: "s", name: "c"}})
	if !maps.Equal(set.owners, map[string]owner{"s__c": {"s", "c"}}) || len(set.list) != 1 {
		t.Errorf("they are called %v", set.owners)
	}
	if log := said.String(); strings.Count(log, "none of them is exposed") != 1 || !strings.Contains(log, hashed(long, long, "b\x00c")) {
		t.Errorf("the log: %s", log)
	}
}

// Without a prefix, a name that many clients refuse, and their whole list with it,
// is changed; all others stay.
func TestOwnNames(t *testing.T) {
	n := &naming{plain: true, ours: map[string]bool{"mcp_call": true}, log: slog.New(slog.DiscardHandler)}
	long := strings.Repeat("x", 65)
	for name, want := range map[string]string{
		"echo": "echo", "a.b-c_D9": "a.b-c_D9", long[1:]: long[1:], "../../etc": "______etc", "grüße 🎉": "gr__e__", "mcp.call!": "mcp_call_", "mcp call": "s__mcp_call", "": "s__",
	} {
		set := n.name("tool", []thing{{server: "s", name: name, raw: json.RawMessage(`{}`)}})
		if o, ok := set.owners[want]; !ok || o != (owner{"s", name}) {
			t.Errorf("%q is called %v, want %q", name, set.owners, want)
		}
	}
	if set := n.name("prompt", []thing{{server: "s", name: "any name <ü>"}}); set.owners["any name <ü>"] != (owner{"s", "any name <ü>"}) {
		t.Errorf("a prompt is called %v", set.owners)
	}
	set := n.name("tool", []thing{{server: "s", name: long, raw: json.RawMessage(`{}`)}, {server: "s", name: "a b", raw: json.RawMessage(`{}`)}, {server: "s", name: "a_b", raw: json.RawMessage(`{}`)}})
	if len(set.owners) != 3 {
		t.Errorf("three tools are called %v", set.owners)
	}
	for as := range set.owners {
		if !strictName.MatchString(as) {
			t.Errorf("a tool is called %q", as)
		}
	}
}

// A name that clashes is told once, whatever else changes.
func TestClashesAreToldOnce(t *testing.T) {
	var said bytes.Buffer
	n := naming{plain: true, log: slog.New(slog.NewTextHandler(&said, nil))}
	both := []thing{{server: "a", name: "x"}, {server: "b", name: "x"}}
	for range 2 {
		n.name("tool", both)
		n.name("prompt", both)
	}
	n.name("tool", append(both, thing{server: "a", name: "y"}, thing{server: "b", name: "y"}))
	if log := said.String(); strings.Count(log, "level=WARN") != 3 || strings.Count(log, "names=[x]") != 2 || !strings.Contains(log, "names=[y]") {
		t.Errorf("the log: %s", log)
	}
}

// All pages together are the whole list, each in its bounds, also where the list
// changes between two of them.
func TestExposedPages(t *testing.T) {
	n := &naming{plain: true, log: slog.New(slog.DiscardHandler)}
	var things []thing
	for i := range 3500 {
		name := "n" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + "_" + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		things = append(things, thing{server: "s", name: name, raw: json.RawMessage(`{"name":"` + name + `","pad":"` + strings.Repeat("p", i%900) + `"}`)})
	}
	set := n.name("tool", things)
	cursor, got := "", []string{}
	for pages := 1; ; pages++ {
		raw, failure := set.page("tools", cursor, []json.RawMessage{json.RawMessage(`{"name":"own"}`)}, nil, messages.EraModern, false)
		if failure != nil || len(raw) > pageBytes+2000 || pages > 20 {
			t.Fatalf("page %d: %d bytes, %v", pages, len(raw), failure)
		}
		var page struct {
			Tools      []struct{ Name string }
			NextCursor string
			TTLMs      *int
			CacheScope string
		}
		if err := json.Unmarshal(raw, &page); err != nil || page.TTLMs == nil || page.CacheScope != "private" || len(page.Tools) > pageItems {
			t.Fatalf("%v: %.200s", err, raw)
		}
		for _, tool := range page.Tools {
			got = append(got, tool.Name)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
		if pages == 1 {
			set = n.name("tool", things[1:]) // the first goes
		}
	}
	if len(got) < 3500 || got[0] != "own" || !slices.IsSorted(got[1:]) || len(slices.Compact(got)) != len(got) {
		t.Errorf("%d names", len(got))
	}
	for _, bad := range []string{"x", "after:", "after:!", "after:eA", cursorPrefix + "cHJvbXB0cwB4"} {
		if _, failure := set.page("tools", bad, nil, nil, messages.EraLegacy, false); failure == nil {
			t.Errorf("the cursor %q is taken", bad)
		}
	}
}

func TestOwnURIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server, uri := rapid.StringN(1, 20, 60).Draw(t, "server"), rapid.StringN(1, 40, 100).Draw(t, "uri")
		topic, ok := ownedBy(ownURI(server, uri))
		if !ok || topic.Server != server || topic.URI != uri {
			t.Errorf("%q of %q comes back as %+v", uri, server, topic)
		}
	})
	for _, bad := range []string{"", "metamcp://", "metamcp://a", "metamcp://a/", "metamcp:///x", "metamcp://%zz/x", "file:///x"} {
		if topic, ok := ownedBy(bad); ok {
			t.Errorf("%q is taken as %+v", bad, topic)
		}
	}
}

// What is looked for in a result is found at any depth, and never inside of a
// text.
func TestNextString(t *testing.T) {
	text := `{"uri":"a","x":{"text":"\"uri\":\"no\"","deep":[{ "uri" : "b\"c" },{"uri":7},{"y":"uri"},{"uri":"\u0064"}]}}`
	var got []string
	for rest := []byte(text); ; {
		s, behind, ok := nextString(rest, uriKey)
		if !ok {
			break
		}
		got, rest = append(got, s), behind
	}
	if !slices.Equal(got, []string{"a", `b"c`, "d"}) {
		t.Errorf("found %q", got)
	}
	for _, broken := range []string{`"uri"`, `"uri":`, `"uri":"`, `"uri":"\`, `"uri":"a\"`} {
		if s, _, ok := nextString([]byte(broken), uriKey); ok {
			t.Errorf("%s has %q", broken, s)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	var m memory
	for i := range 3 * maxRemembered {
		m.add(strings.Repeat("u", i%2000)+string(rune('a'+i%26))+jsonNumber(i), "s")
	}
	if len(m.order) > maxRemembered || len(m.servers) != len(m.order) || m.bytes > maxRememberedB {
		t.Errorf("%d words, %d bytes", len(m.order), m.bytes)
	}
	m.add(strings.Repeat("u", maxWord+1), "s")
	m.add("last", "s")
	m.add("last", "t")
	m.add("last", "s")
	if got := m.of("last"); !slices.Equal(got, []string{"s", "t"}) {
		t.Errorf("last is of %q", got)
	}
	if len(m.of(strings.Repeat("u", maxWord+1))) != 0 {
		t.Error("a long word is remembered")
	}
}

func jsonNumber(i int) string { b, _ := json.Marshal(i); return string(b) }

// What a request asks for goes on as it came.
func TestBare(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1.0,"_meta":{"x":1},"b":"\u00e9"}`: `{"a":1.0,"b":"\u00e9"}`, `{"_meta":{},"requestState":"x","inputResponses":{}}`: `{}`, `{"\u005fmeta":1,"c" : [ 1 ]}`: `{"c":[ 1 ]}`,
		`{ "a" : [ 1 ] }`: `{"a":[ 1 ]}`, ``: ``,
	} {
		got, err := bare([]byte(in), true)
		if err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v; want %s", in, got, err, want)
		}
	}
	if got := withMember([]byte(`{"a":1,"uri":"x","b":2}`), "uri", "y\"z"); string(got) != `{"a":1,"uri":"y\"z","b":2}` || jsonrpc.Valid(got) != nil {
		t.Errorf("%s", got)
	}
}
