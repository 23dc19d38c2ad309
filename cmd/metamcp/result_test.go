package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

func TestPrintResult(t *testing.T) {
	image := `{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString(make([]byte, 4096)) + `"}`
	for _, c := range []struct{ raw, want string }{
		{`{"content":[{"type":"text","text":"a\nb"},{"type":"text","text":"c"}]}`, "a\nb\nc\n"},
		{`{"content":[{"type":"text","text":"see:"},` + image + `]}`, "see:\n[image/png, 4.0 KiB; --json shows it]\n"},
		{`{"content":[{"type":"audio","data":"AAA="}]}`, "[audio, 2 bytes; --json shows it]\n"},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///x","blob":"AAAA"}}]}`, "[file:///x, 3 bytes; --json shows it]\n"},
		{`{"content":[{"type":"resource","resource":{"uri":"file:///x","text":"words"}}]}`, "words\n"},
		{`{"content":[{"type":"resource_link","name":"x","uri":"file:///x"}]}`, "[x file:///x]\n"},
		{`{"content":[{"type":"new","text":"x"}]}`, `{"content":[{"type":"new","text":"x"}]}` + "\n"},
		{`{"content":[]}`, `{"content":[]}` + "\n"},
		{`{"structuredContent":{"a":1}}`, `{"structuredContent":{"a":1}}` + "\n"},
	} {
		for _, raw := range []bool{false, true} {
			want := c.want
			if raw {
				want = c.raw + "\n"
			}
			var out strings.Builder
			if err := printResult(&out, &metamcp.Result{Raw: []byte(c.raw)}, raw); err != nil || out.String() != want {
				t.Errorf("%.100s: %q, %v; want %q", c.raw, out.String(), err, want)
			}
		}
	}
}

func TestDiscoverLimit(t *testing.T) {
	for _, limit := range []string{"0", "-1", "101"} {
		c := &common{logLevel: "error"}
		root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
		c.overlay = config.RegisterFlags(root.PersistentFlags())
		root.AddCommand(newDiscover(c))
		root.SetArgs([]string{"discover", "--state-dir", filepath.Join(t.TempDir(), "state"), "x", "--limit", limit})
		var usage usageError
		if err := root.ExecuteContext(t.Context()); !errors.As(err, &usage) || !strings.Contains(err.Error(), "1 to 100") {
			t.Errorf("--limit %s: %v", limit, err)
		}
	}
}

func TestStarIsExplainedWhereThereIsOne(t *testing.T) {
	for connected, want := range map[bool]bool{true: true, false: false} {
		var out strings.Builder
		a := &metamcp.DiscoverAnswer{Matches: []metamcp.MatchLine{{Server: "s", Tool: "t", Connected: connected}}}
		if err := printAnswer(newRoot(io.Discard), &out, a); err != nil || strings.Contains(out.String(), "* connected") != want || !strings.Contains(out.String(), "--server s --tool t") {
			t.Errorf("connected %v: %q, %v", connected, out.String(), err)
		}
	}
}

// A command that somebody is to type is one for a shell, whatever the names in it.
func TestNamesInCommandsAreQuoted(t *testing.T) {
	var out strings.Builder
	a := &metamcp.DiscoverAnswer{Matches: []metamcp.MatchLine{{Server: "bad name", Tool: "$t"}}, Pending: []string{"bad name"}}
	if err := printAnswer(newRoot(io.Discard), &out, a); err != nil || !strings.Contains(out.String(), "--server 'bad name' --tool '$t'") || !strings.Contains(out.String(), "(metamcp discover --server 'bad name' waits") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if got, want := pinProblem(&messages.HostServer{Name: "bad name", Held: 1}), "metamcp pins diff 'bad name'"; !strings.Contains(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
	if got, want := (&messages.ServerSpec{Name: "bad name"}).TurnOn(), "`metamcp enable 'bad name'`"; !strings.Contains(got, want) {
		t.Errorf("%q lacks %q", got, want)
	}
}

// A person sees the signatures that detail "full" asks for.
func TestSignaturesAreShown(t *testing.T) {
	const signature = "interface AddArgs {\n  a: number;\n}\n"
	for _, a := range []*metamcp.DiscoverAnswer{
		{Tools: []metamcp.ToolLine{{Name: "add", Signature: signature}}},
		{Matches: []metamcp.MatchLine{{Server: "demo", Tool: "add", Signature: signature}}},
	} {
		var out bytes.Buffer
		if err := printAnswer(newRoot(io.Discard), &out, a); err != nil || !strings.Contains(out.String(), "\n"+signature) {
			t.Errorf("%v, %s", err, &out)
		}
	}
}

// TestSkillsHaveTheirPaths: the note says to read a skill at its path.
func TestSkillsHaveTheirPaths(t *testing.T) {
	var out bytes.Buffer
	a := &metamcp.DiscoverAnswer{Skills: []metamcp.SkillLine{{Name: "release", Description: "Publish a release.", Path: "/home/me/skills/release/SKILL.md", Ready: true}}}
	if err := printAnswer(newRoot(io.Discard), &out, a); err != nil || !strings.Contains(out.String(), "\nrelease: /home/me/skills/release/SKILL.md\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}
