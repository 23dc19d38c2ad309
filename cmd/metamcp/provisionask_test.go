package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
)

// Any of what can be installed may be chosen, what needs a value is not offered,
// and that something else was named is said.
func TestAskWhichToInstall(t *testing.T) {
	option := func(name string) metamcp.ProvisionOption {
		return metamcp.ProvisionOption{Key: "npm:" + name, Name: name, Version: "1.0.0", Entry: json.RawMessage("{}")}
	}
	needy := option("needy")
	needy.Environment = []metamcp.ProvisionVariable{{Name: "folder", Place: "argument", Required: true, Missing: true}, {Name: "KEY", Secret: true, Missing: true}}
	hidden := option("hidden")
	hidden.Environment = []metamcp.ProvisionVariable{{Name: "--api-key", Place: "argument", Secret: true, Missing: true}}
	broken := option("broken")
	broken.Problem = "it runs elsewhere"
	for _, c := range []struct {
		name    string
		matches []metamcp.ProvisionOption
		unknown []string
		typed   string
		want    string // "": none
		says    string
	}{
		{"yes", []metamcp.ProvisionOption{option("a")}, nil, "y\n", "a", "Install a 1.0.0? [y/N]"},
		{"no", []metamcp.ProvisionOption{option("a")}, nil, "\n", "", ""},
		{"the second", []metamcp.ProvisionOption{option("a"), option("b")}, nil, "2\n", "b", "Install which? [1-2, anything else: none]"},
		{"none of two", []metamcp.ProvisionOption{option("a"), option("b")}, nil, "y\n", "", ""},
		{"out of range", []metamcp.ProvisionOption{option("a"), option("b")}, nil, "3\n", "", ""},
		{"an end of input", []metamcp.ProvisionOption{option("a"), option("b")}, nil, "", "", ""},
		{"what needs something", []metamcp.ProvisionOption{needy}, nil, "y\n", "",
			"needy needs the argument folder, the variable KEY first: metamcp secrets set KEY && metamcp provision needy --set 'folder=VALUE' --set 'KEY=${secret:KEY}'"},
		{"a flag that is secret", []metamcp.ProvisionOption{hidden}, nil, "y\n", "", "metamcp secrets set api-key && metamcp provision hidden --set '--api-key=${secret:api-key}'"},
		{"what cannot be installed", []metamcp.ProvisionOption{broken, option("b")}, nil, "y\n", "b", "Install b 1.0.0?"},
		{"something else", []metamcp.ProvisionOption{option("a")}, []string{"x-mcp"}, "n\n", "", "Install a 1.0.0, which is NOT what you named?"},
	} {
		var out bytes.Buffer
		got := choose(newRoot(io.Discard), strings.NewReader(c.typed), &out, &metamcp.ProvisionAnswer{Matches: c.matches, Unknown: c.unknown})
		name := ""
		if got != nil {
			name = got.Name
		}
		if name != c.want || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %q, want %q; it says\n%s", c.name, name, c.want, out.String())
		}
	}
}

// Where nobody can be asked, the person learns what --yes would do.
func TestUnattended(t *testing.T) {
	o := metamcp.ProvisionOption{Name: "a", Entry: json.RawMessage("{}"), Gate: "setting"}
	for _, c := range []struct {
		change func(o *metamcp.ProvisionOption)
		want   string
	}{
		{func(*metamcp.ProvisionOption) {}, "add --yes to install it"},
		{func(o *metamcp.ProvisionOption) { o.Gate = "namespace" }, "--yes would not"},
		{func(o *metamcp.ProvisionOption) {
			o.Environment = []metamcp.ProvisionVariable{{Name: "K", Missing: true}}
		}, "it needs the variable K: metamcp provision a --set 'K=VALUE' --yes"},
		{func(o *metamcp.ProvisionOption) { o.Entry = nil }, "cannot install"},
	} {
		own := o
		c.change(&own)
		if got := unattended(newRoot(io.Discard), &metamcp.ProvisionAnswer{Matches: []metamcp.ProvisionOption{own}}); !strings.Contains(got, c.want) || !strings.HasPrefix(got, "Nothing was installed") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestProvisionPrintsCommandsToPaste: they are about the files and the state folder that
// this command was about.
func TestProvisionPrintsCommandsToPaste(t *testing.T) {
	root := newRoot(io.Discard)
	if err := root.ParseFlags([]string{"--config", "my file.json", "--state-dir", "st"}); err != nil {
		t.Fatal(err)
	}
	const ours = "metamcp --config 'my file.json' --state-dir st "
	missing := []metamcp.ProvisionVariable{{Name: "KEY", Secret: true, Missing: true}}
	o := metamcp.ProvisionOption{
		Name: "@a/b", Entry: json.RawMessage("{}"), Gate: "setting", Environment: missing, Add: "metamcp add @a/b",
		Reason: "the trust file does not trust npm:@a/b; metamcp trust add @a/b does that for one that you know",
	}
	give := ours + "secrets set KEY && " + ours + "provision @a/b --set 'KEY=${secret:KEY}'"
	var asked, denied bytes.Buffer
	choose(root, strings.NewReader(""), &asked, &metamcp.ProvisionAnswer{Matches: []metamcp.ProvisionOption{o}})
	if err := printProvision(root, &denied, &metamcp.ProvisionAnswer{
		Decision: metamcp.DecisionDenied, Denied: &metamcp.Error{Message: "it needs KEY"}, Package: "@a/b", Missing: missing,
	}, false); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, want string }{
		{asked.String(), give}, {denied.String(), "hint: give it with: " + give},
		{unattended(root, &metamcp.ProvisionAnswer{Matches: []metamcp.ProvisionOption{o}}), give + " --yes"},
		{strings.Join(matchText(root, &o), "\n"), ours + "add @a/b"}, {strings.Join(matchText(root, &o), "\n"), ours + "trust add @a/b does"},
	} {
		if !strings.Contains(c.in, c.want) {
			t.Errorf("%q does not hold %q", c.in, c.want)
		}
	}
}
