package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
	"pgregory.net/rapid"
)

func TestDiff(t *testing.T) {
	w := newWorld(t)
	base := `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`
	tests := []struct {
		name, text string
		want       string
	}{
		{"same", base, ""},
		{"moved", `{"mcpServers": {` + "\n\n" + `"b": {"command": "y"}, "a": {"command": "x"}}}`, ""},
		{"added", `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z"}}}`, "added c"},
		{"removed", `{"mcpServers": {"b": {"command": "y"}}}`, "removed a"},
		{"changed", `{"mcpServers": {"a": {"command": "x2"}, "b": {"command": "y"}}}`, "changed a"},
		{"updated", `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "timeoutMs": 5}}}`, "updated b"},
		{"turned off", `{"mcpServers": {"a": {"command": "x", "disabled": true}, "b": {"command": "y"}}}`, "changed a"},
		{"broken", `{"mcpServers": {"a": {"command": 1}, "b": {"command": "y"}}}`, "changed a"},
		{"pool", `{"metamcp": {"pool": {"poolSize": 1}},` + base[1:], "pool 20 to 1"},
		{"pool, with a restart", `{"metamcp": {"pool": {"poolSize": 1, "maxStarts": 2, "memoryPercent": 50}},` + base[1:],
			"pool 20 to 1, settings pool.maxStarts pool.memoryPercent; restart pool.maxStarts pool.memoryPercent"},
		{"settings", `{"metamcp": {"scrub": false, "stateDir": "/x", "toolRules": [{"pattern": "a", "enabled": true}]},` + base[1:],
			"settings toolRules trust.file audit.file scrub stateDir; restart audit.file stateDir"},
		{"all", `{"mcpServers": {"c": {"command": "x"}, "b": {"command": "z"}}, "metamcp": {"pool": {"poolSize": 1}, "scrub": false}}`,
			"removed a, changed b, added c, pool 20 to 1, settings scrub; restart "},
	}
	old := w.load(base)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, a := range Diff(old, w.load(tt.text)) {
				got = append(got, describe(a))
			}
			if s := strings.Join(got, ", "); s != tt.want {
				t.Errorf("got %q, want %q", s, tt.want)
			}
		})
	}
	if n := len(Diff(nil, old)); n != 3 { // two servers and the resolved paths
		t.Errorf("%d actions from nothing", n)
	}
}

// TestSameSpecLooksAtEveryField changes one field after the other, so that one
// that is added later is not forgotten.
func TestSameSpecLooksAtEveryField(t *testing.T) {
	typ := reflect.TypeFor[messages.ServerSpec]()
	for i := range typ.NumField() {
		var a, b messages.ServerSpec
		field, name := reflect.ValueOf(&b).Elem().Field(i), typ.Field(i).Name
		switch field.Kind() {
		case reflect.String:
			field.SetString("x")
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Int, reflect.Int64:
			field.SetInt(7)
		case reflect.Slice:
			field.Set(reflect.ValueOf([]string{"x"}))
		case reflect.Map:
			field.Set(reflect.ValueOf(map[string]string{"x": "y"}))
		case reflect.Struct:
			for j := range field.NumField() { // each of them alone
				one := reflect.New(field.Type()).Elem()
				if one.Field(j).Kind() == reflect.Bool {
					one.Field(j).SetBool(true)
				} else {
					one.Field(j).SetInt(7)
				}
				field.Set(one)
				if sameSpec(&a, &b) {
					t.Errorf("%s.%s is not looked at", name, field.Type().Field(j).Name)
				}
			}
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		default:
			t.Fatalf("%s has a kind that is new here", name)
		}
		if want := name == "Source" || name == "Hash"; sameSpec(&a, &b) != want {
			t.Errorf("%s: same is %v, want %v", name, !want, want)
		}
	}
}

func describe(a Action) string {
	switch a := a.(type) {
	case ServerAdded:
		return "added " + a.Server.Name
	case ServerRemoved:
		return "removed " + a.Server.Name
	case ServerChanged:
		return "changed " + a.New.Name
	case ServerUpdated:
		return "updated " + a.New.Name
	case PoolChanged:
		return fmt.Sprintf("pool %d to %d", a.Old.PoolSize, a.New.PoolSize)
	case SettingsChanged:
		return "settings " + strings.Join(a.Paths, " ") + "; restart " + strings.Join(a.Restart, " ")
	}
	return "?"
}

// state is what a host that follows actions ends up with.
type state struct {
	servers  map[string]messages.ServerSpec
	settings Settings
}

func stateOf(c *Config) state {
	s := state{map[string]messages.ServerSpec{}, c.Settings}
	for _, spec := range c.Servers {
		s.put(spec)
	}
	return s
}

func (s *state) put(spec *messages.ServerSpec) {
	c := *spec
	c.Source = "" // where it stands in the file is not a difference
	s.servers[spec.Name] = c
}

func (s *state) apply(t *rapid.T, actions []Action) {
	known := func(spec *messages.ServerSpec, want bool) {
		if _, ok := s.servers[spec.Name]; ok != want {
			t.Fatalf("%s: known is %v, want %v", spec.Name, ok, want)
		}
	}
	for _, a := range actions {
		switch a := a.(type) {
		case ServerAdded:
			known(a.Server, false)
			s.put(a.Server)
		case ServerRemoved:
			known(a.Server, true)
			delete(s.servers, a.Server.Name)
		case ServerChanged:
			known(a.Old, true)
			s.put(a.New)
		case ServerUpdated:
			known(a.Old, true)
			if a.Old.Hash != a.New.Hash {
				t.Fatalf("%s: updated, but its hash differs", a.New.Name)
			}
			s.put(a.New)
		case PoolChanged:
			s.settings.Pool = a.New
		case SettingsChanged:
			for _, p := range a.Paths {
				k := keyIndex[p]
				reflect.ValueOf(k.ref(&s.settings)).Elem().Set(reflect.ValueOf(k.ref(&a.New)).Elem())
			}
		}
	}
}

func TestDiffLeadsFromOldToNew(t *testing.T) {
	w := newWorld(t)
	src := w.sources().resolved()
	entry := rapid.SampledFrom([]string{
		`{"command": "x"}`, `{"command": "y"}`, `{"command": "x", "timeoutMs": 5}`, `{"command": "x", "tags": ["t"]}`, `{"command": "x", "tags": []}`,
		`{"command": "x", "env": {"A": "1"}}`, `{"command": "x", "disabled": true}`, `{"command": 1}`, `{"command": "${NONE}"}`,
		`{"url": "https://x.example"}`, `{"url": "https://x.example", "headers": {}}`, `{"url": "https://x.example", "headers": {"a": "b"}}`,
	})
	setting := rapid.SampledFrom([]string{
		`"pool": {"poolSize": 1}`, `"pool": {"cooldownMs": 9}`, `"scrub": false`, `"stateDir": "/x"`, `"expose": ["a"]`, `"expose": []`,
		`"toolRules": [{"pattern": "a", "enabled": true}]`, `"toolRules": [{"pattern": "a", "enabled": false}]`, `"trace": true`,
	})
	draw := func(t *rapid.T, label string) *Config {
		servers := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), entry, 0, 4).Draw(t, label)
		var members []string
		for name, e := range servers {
			members = append(members, fmt.Sprintf("%q: %s", name, e))
		}
		settings := rapid.SliceOfN(setting, 0, 3).Draw(t, label+" settings")
		text := `{"mcpServers": {` + strings.Join(members, ",\n") + `}, "metamcp": {` + strings.Join(settings, ", ") + `}}`
		cfg, err := src.build(begin(), []content{{path: "/f.json", data: []byte(text), regular: true}}, nil, known{})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	rapid.Check(t, func(t *rapid.T) {
		old, next := draw(t, "old"), draw(t, "new")
		got, want := stateOf(old), stateOf(next)
		got.apply(t, Diff(old, next))
		// nil and empty mean the same in a list.
		if a, b := fmt.Sprintf("%+v", plain(got)), fmt.Sprintf("%+v", plain(want)); a != b {
			t.Fatalf("got\n%s\nwant\n%s", a, b)
		}
		if rest := Diff(next, next); len(rest) != 0 {
			t.Fatalf("no difference takes %d actions", len(rest))
		}
	})
}

// plain follows the pointers, so that two states can be compared as text.
func plain(s state) string {
	var b strings.Builder
	for _, name := range []string{"a", "b", "c", "d"} {
		spec, ok := s.servers[name]
		fmt.Fprintf(&b, "%s %v ", name, ok)
		if spec.Err != nil {
			fmt.Fprintf(&b, "%+v ", *spec.Err)
			spec.Err = nil
		}
		fmt.Fprintf(&b, "%+v\n", spec)
	}
	for _, r := range s.settings.ToolRules {
		fmt.Fprintf(&b, "%v %s %v %v\n", r.Pattern, r.Server, r.Enabled != nil && *r.Enabled, r.Tags)
	}
	s.settings.ToolRules = nil
	fmt.Fprintf(&b, "%+v", s.settings)
	return b.String()
}
