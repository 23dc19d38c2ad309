package typescript

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The tools of real servers, all of them, as a model sees them.
func TestToolsOfServers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	node := npmservers.Node(t)
	for name, c := range map[string]testkit.Command{
		"demo":                {Path: self, Env: []string{childVariable + "=1"}},
		"hidden":              {Path: self, Args: []string{"--hidden-text"}, Env: []string{childVariable + "=1"}},
		"everything":          {Path: node, Args: []string{npmservers.Entry(t, npmservers.Everything), "stdio"}},
		"filesystem":          {Path: node, Args: []string{npmservers.Entry(t, npmservers.Filesystem), t.TempDir()}},
		"memory":              {Path: node, Args: []string{npmservers.Entry(t, npmservers.Memory)}},
		"sequential-thinking": {Path: node, Args: []string{npmservers.Entry(t, npmservers.SequentialThinking)}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Dir = t.TempDir()
			lines := testkit.StartCommand(t, c).Lines(t)
			lines.Handshake()
			raw, failure := lines.Call("1", "tools/list", "{}")
			var listing struct {
				Tools []struct {
					Name, Description         string
					InputSchema, OutputSchema json.RawMessage
				}
			}
			if err := json.Unmarshal(raw, &listing); err != nil || failure != nil || len(listing.Tools) == 0 {
				t.Fatalf("%s %s (%v)", raw, failure, err)
			}
			got := make([]string, 0, len(listing.Tools))
			for _, tool := range listing.Tools {
				got = append(got, checked(t, Tool{
					Server: name, Name: tool.Name, Description: tool.Description, Input: tool.InputSchema, Output: tool.OutputSchema,
				}))
			}
			slices.Sort(got) // servers may register tools in any order
			golden(t, name, strings.Join(got, "\n\n")+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("not what %s says (go test -update writes it anew):\n%s", path, got)
	}
}
