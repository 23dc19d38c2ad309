package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/messages"
)

// command runs metamcp in this process.
func command(t *testing.T, words ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	root := newRoot(&said)
	root.SetOut(&out)
	root.SetErr(&said)
	root.SetArgs(words)
	err = root.ExecuteContext(t.Context())
	return out.String(), said.String(), err
}

// every calls visit for each command that people see.
func every(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Hidden {
		return
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		every(sub, visit)
	}
}

// Every command's help shows how it is used, with flags that there are.
func TestHelpHasExamples(t *testing.T) {
	every(newRoot(io.Discard), func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.TrimSpace(cmd.Example) == "" {
			t.Errorf("%s: its help has no short text or no example", cmd.CommandPath())
		}
		if !strings.Contains(cmd.Example, cmd.CommandPath()) {
			t.Errorf("%s: its example is about something else:\n%s", cmd.CommandPath(), cmd.Example)
		}
		for line := range strings.Lines(cmd.Example) {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "metamcp" {
				continue // a shell's own command
			}
			used, rest, err := cmd.Root().Find(words[1:])
			if err != nil || used == cmd.Root() && cmd != cmd.Root() {
				t.Errorf("%s: the example %q: %v", cmd.CommandPath(), line, err)
				continue
			}
			for _, w := range rest {
				if w == "--" || strings.HasPrefix(w, "#") || strings.HasPrefix(w, ">") || strings.HasPrefix(w, "|") || strings.HasPrefix(w, "&") || used.DisableFlagParsing {
					break
				}
				name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
				if strings.HasPrefix(w, "--") && name != "help" && used.Flag(name) == nil {
					t.Errorf("%s: the example %q has a flag that there is not: %s", cmd.CommandPath(), strings.TrimSpace(line), w)
				}
			}
		}
	})
}

// A word that is no subcommand is wrong usage, and no help that succeeds.
func TestNoSubcommandOfThatName(t *testing.T) {
	var groups int
	every(newRoot(io.Discard), func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() {
			return
		}
		groups++
		var out bytes.Buffer
		root := newRoot(io.Discard)
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "nonsense"))
		err := root.ExecuteContext(t.Context())
		var wrong usageError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "nonsense") || out.Len() > 0 {
			t.Errorf("%s nonsense: %v, and on stdout %q", cmd.CommandPath(), err, &out)
		}
	})
	if groups < 2 {
		t.Errorf("only %d commands have subcommands", groups)
	}
}

// Of the commands that may be meant the nearest is named, and one that has none below it
// does not take a word for one.
func TestTheNearestCommandIsNamed(t *testing.T) {
	for line, want := range map[string]string{
		"lst": "did you mean list?", "lgs": "did you mean logs?", "tst": "did you mean test?", "host stat": "did you mean status?", "disc": "did you mean discover?",
		"Docter": "did you mean doctor?", "xyzzy": `unknown command "xyzzy" for "metamcp"; see metamcp --help`, "doctor my'demo": `metamcp doctor takes no arguments, and was given "my'demo"; did you mean --server 'my'\''demo'?`,
		"list demo": `metamcp list takes no arguments, and was given "demo"; usage: metamcp list;`, "serve foo": `metamcp serve takes no arguments, and was given "foo"`,
	} {
		root := newRoot(io.Discard)
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestEmptyValues: a variable of the shell that is not set must not send a command to
// another file, or to all servers.
func TestEmptyValues(t *testing.T) {
	for _, words := range [][]string{
		{"list", "--config", ""}, {"-c", "", "remove", "demo"}, {"list", "-c", "a.json", "-c", ""}, {"discover", "--server="}, {"doctor", "--server", ""}, {"serve", "--http", ""},
	} {
		root := newRoot(io.Discard)
		root.SetArgs(words)
		if err := root.ExecuteContext(t.Context()); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), "has an empty value") {
			t.Errorf("%q: %v", words, err)
		}
	}
}

// Help about nothing that there is is wrong usage too.
func TestHelpTopics(t *testing.T) {
	for line, want := range map[string]string{
		"help": "", "help call": "", "help token add": "", "help nope": `no command "nope"`, "help token nope": `no command "token nope"`,
	} {
		var out bytes.Buffer
		root := newRoot(io.Discard)
		root.SetOut(&out)
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		if want == "" && (err != nil || !strings.Contains(out.String(), "Usage:")) {
			t.Errorf("%s: %v\n%s", line, err, &out)
		}
		if want != "" && (!errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want) || out.Len() > 0) {
			t.Errorf("%s: %v\n%s", line, err, &out)
		}
	}
}

// What is missing or too much is called what the command's use calls it.
func TestNumbersOfArguments(t *testing.T) {
	for line, want := range map[string]string{
		"token add": "add needs NAME; usage: metamcp token add NAME", "token add a b": "add takes one NAME, and not 2",
		"logs": "logs needs SERVER; usage: metamcp logs SERVER", "token remove": "remove needs NAME;", "provision": "provision needs INTENT",
		"status a b": "status takes one HOST, and not 2", "pins diff": "diff needs SERVER", "model install": "install needs NAME|URL",
	} {
		root := newRoot(io.Discard)
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); !errors.As(err, new(usageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// README.md leaves no command out.
func TestReadmeNamesEveryCommand(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, commands, found := strings.Cut(string(text), "\n## Commands\n")
	if !found {
		t.Fatal("README.md has no part about commands")
	}
	for _, cmd := range newRoot(io.Discard).Commands() {
		named := func(begin string) bool {
			return strings.Contains(commands, begin+cmd.Name()+"`") || strings.Contains(commands, begin+cmd.Name()+" ")
		}
		if !cmd.Hidden && !named("`") && !named("`metamcp ") {
			t.Errorf("README.md does not name metamcp %s", cmd.Name())
		}
	}
}

func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man", "man1")
	root := newRoot(io.Discard)
	root.SetArgs([]string{"man", dir})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	every(newRoot(io.Discard), func(cmd *cobra.Command) {
		page := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		if !slices.Contains(names, page) {
			t.Errorf("there is no %s in %q", page, names)
		}
	})
	text, err := os.ReadFile(filepath.Join(dir, "metamcp-add.1"))
	if err != nil || !bytes.Contains(text, []byte(".SH EXAMPLE")) || !bytes.Contains(text, []byte("--from-registry")) || bytes.Contains(text, []byte("cooldown")) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestCompletionScripts(t *testing.T) {
	for shell := range shells {
		var out bytes.Buffer
		root := newRoot(io.Discard)
		root.SetOut(&out)
		root.SetArgs([]string{"completion", shell})
		if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "__complete") {
			t.Errorf("%s: %v, %d bytes", shell, err, out.Len())
		}
	}
	root := newRoot(io.Discard)
	root.SetArgs([]string{"completion", "csh"})
	if err := root.ExecuteContext(t.Context()); err == nil {
		t.Error("csh")
	}
}

// Names come from the configuration and from what servers listed last; no
// server is started for them.
func TestCompletions(t *testing.T) {
	dir := t.TempDir()
	file, state := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "state")
	started := filepath.Join(dir, "started")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"files":  map[string]any{"command": "touch", "args": []string{started}, "description": "reads\nfiles"},
		"fetch":  map[string]any{"command": "touch", "args": []string{started}},
		"github": map[string]any{"args": []string{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	set := &messages.Toolset{Server: "files", Tools: []*messages.Tool{
		{Server: "files", Definition: &messages.Definition{Name: "read_text", Description: "Reads\x1b a text", Raw: json.RawMessage(`{"name":"read_text","description":"Reads\u001b a text","inputSchema":{"type":"object"}}`)}},
		{Server: "files", Definition: &messages.Definition{Name: "write_text", Raw: json.RawMessage(`{"name":"write_text","inputSchema":{"type":"object"}}`)}},
	}}
	if _, err := index.NewCache(state, safename.SafeName).Save(set); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ words, want string }{
		{"call f", "files\treads fetch"},
		{"call files re", "read_text\tReads\uFFFD a text"},
		{"call files read_text ", ""},
		{"call fetch ", ""},
		{"discover --server files --tool w", "write_text"},
		{"discover --server g", "github"},
		{"remove files f", "fetch"},
		{"test gi", "github"},
		{"logs files f", ""},
		{"add playw", "playwright\tDrives a browser through the page's accessibility tree."},
		{"add --list --category databa", "database"},
		{"completion f", "fish"},
		{"enable", "enable\tTurn servers on again that were turned off"},
	} {
		words := strings.Split(c.words, " ")
		var out bytes.Buffer
		root := newRoot(io.Discard)
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd, "--config", file, "--state-dir", state}, words...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v", c.words, err)
		}
		lines := strings.Split(out.String(), "\n")
		got := strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" || strings.HasPrefix(l, ":") }), " ")
		if c.words == "add --list --category databa" { // the shell narrows it
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %q", c.words, got)
			}
			continue
		}
		if same := strings.Fields(got); len(same) != len(strings.Fields(c.want)) || !sameWords(same, strings.Fields(c.want)) {
			t.Errorf("%s: %q, want %q", c.words, got, c.want)
		}
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("a completion started a server")
	}
}

func sameWords(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// The flag of attach stands in the help of the commands that attach, and of no other.
func TestAttachIsShownWhereItCounts(t *testing.T) {
	for line, want := range map[string]bool{"--help": true, "serve --help": true, "call --help": false, "discover --help": false, "exec --help": false, "list --help": false, "settings": true} {
		var out bytes.Buffer
		root := newRoot(io.Discard)
		root.SetOut(&out)
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); err != nil || strings.Contains(out.String(), "--attach") != want {
			t.Errorf("%s: %v, --attach is to be in it: %t\n%s", line, err, want, &out)
		}
	}
}

// Where a variable, which clients share, asks for a host, a command that uses none says so.
func TestRequiredHostIsNotUsed(t *testing.T) {
	emptyConfig(t)
	t.Setenv("METAMCP_ATTACH", "require")
	if out, said, err := command(t, "discover"); err != nil || !strings.Contains(said, "attach is set to require") {
		t.Errorf("%v\n%s\n%s", err, out, said)
	}
	if _, _, err := command(t, "serve", "--attach=require"); err == nil || !strings.Contains(err.Error(), "no host runs") {
		t.Errorf("serve, which attaches: %v", err)
	}
}
