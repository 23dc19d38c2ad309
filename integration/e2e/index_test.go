package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// storeOf runs a command of `metamcp index` over a state folder.
func storeOf(t testing.TB, stateDir string, args ...string) []byte {
	t.Helper()
	cfg := filepath.Join(t.TempDir(), "none.json")
	testkit.WriteConfig(t, cfg, "", nil, nil)
	cmd := exec.CommandContext(t.Context(), testkit.PlainBinary(t), append([]string{"index", "--config", cfg, "--state-dir", stateDir}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("metamcp index %v: %v\n%s", args, err, stderr.Bytes())
	}
	return out
}

// vectorsIn returns what a store holds, by hash.
func vectorsIn(t testing.TB, stateDir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	const longest = 1 << 20
	lines := bufio.NewScanner(bytes.NewReader(storeOf(t, stateDir, "export", "--vectors")))
	lines.Buffer(nil, longest)
	for lines.Scan() {
		// The vector comes last and is compared as text: under the race detector
		// taking all of them apart takes longer than embedding them.
		head, vector, whole := strings.Cut(lines.Text(), `,"vector":`)
		if !whole {
			continue
		}
		var line struct{ Hash string }
		if err := json.Unmarshal([]byte(head+"}"), &line); err != nil || line.Hash == "" {
			t.Fatalf("a line of the export begins with %s: %v", head, err)
		}
		found[line.Hash] = vector
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// embeddedBy returns how many tools are embedded according to an answer's notes,
// -1 where they do not say.
func embeddedBy(notes []string) int {
	for _, note := range notes {
		var n, of int
		if _, err := fmt.Sscanf(note, "%d of %d tools are embedded", &n, &of); err == nil {
			return n
		}
	}
	return -1
}

// indexFigures are what index status says of a store.
type indexFigures struct {
	Rebuilt string
	Models  []struct{ Vectors, Hits, Misses int }
}

// whole says whether all tools are embedded.
func (f *indexFigures) whole(tools int) bool {
	return len(f.Models) == 1 && f.Models[0].Vectors >= tools
}

func figuresOf(t testing.TB, stateDir string) *indexFigures {
	t.Helper()
	var status struct{ Figures indexFigures }
	if err := json.Unmarshal(storeOf(t, stateDir, "status", "--json"), &status); err != nil {
		t.Fatal(err)
	}
	return &status.Figures
}

// A host that is killed while it embeds loses nothing that it had stored, and
// the next one goes on where it was.
func TestHostKilledWhileItEmbeds(t *testing.T) {
	t.Parallel()
	const kills, tools = 10, 1000
	state := t.TempDir()
	entries := servers{"big": testkit.DemoServer(t, "--tools", strconv.Itoa(tools))}
	settings := map[string]any{"stateDir": state}
	var before map[string]string
	midway := 0
	for i := 0; i < kills && len(before) < tools; i++ {
		h := plainHost(t, entries, settings)
		// The answers say how far the index is: the round ends when this host
		// has stored something, sooner or later within its next batch. On a busy
		// machine it may be done with all of it before it is asked.
		eventually(t, "the index goes on", func() bool {
			n := embeddedBy(h.discover(`{"query":"add two numbers","limit":1}`).Notes)
			return n > len(before) || n < 0 && figuresOf(t, state).whole(tools)
		})
		h.p.Signal(t, syscall.SIGKILL)
		<-h.p.Exited()
		now := vectorsIn(t, state)
		for hash, v := range before {
			if now[hash] != v {
				t.Fatalf("round %d: the vector of %s is lost or another one", i, hash)
			}
		}
		before = now
		if len(now) > 0 && len(now) < tools {
			midway++
		}
	}
	if midway == 0 {
		t.Fatalf("no host was killed while it embedded, %d of some %d tools are: nothing is tested", len(before), tools)
	}

	h := plainHost(t, entries, settings)
	h.discover(`{"query":"add two numbers"}`)
	eventually(t, "all tools are embedded", func() bool { return figuresOf(t, state).whole(tools) })
	if how := figuresOf(t, state).Rebuilt; how != "" {
		t.Errorf("the store was made anew: %s", how)
	}
	h.p.CloseStdin()
	h.p.Wait(t, patience)
	after := vectorsIn(t, state)
	for hash, v := range before {
		if after[hash] != v {
			t.Fatalf("the vector of %s was lost or embedded again", hash)
		}
	}
}
