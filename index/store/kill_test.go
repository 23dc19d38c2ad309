package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	killModel = "kill"
	killDim   = 16
	killBatch = 40
	kills     = 30
	killAhead = 4 // batches that a helper does before it waits for its end
	killAll   = (kills*killAhead + 1) * killBatch
)

func init() {
	helpers["index"] = func(args []string) error { return indexHelper(args[0], args[1] == "all") }
	helpers["hold"] = func(args []string) error { return holdHelper(args[0]) }
}

// indexHelper embeds what is missing, as a host would, and says which vectors it
// embeds before each batch, and that the batch is acknowledged behind it. If it
// is not to do all, it stops after some batches and waits: on a busy machine it
// could be through before anybody kills it.
func indexHelper(path string, all bool) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	if s.Rebuilt() != "" {
		return fmt.Errorf("rebuilt: %s", s.Rebuilt())
	}
	there := present(panicker{}, s, killModel, killAll, killDim, "k")
	var missing []int
	for n, ok := range there {
		if !ok {
			missing = append(missing, n)
		}
	}
	fmt.Println("opened", len(missing))
	for done := 0; len(missing) > 0; done++ {
		if done == killAhead && !all {
			<-make(chan struct{})
		}
		batch := missing[:min(killBatch, len(missing))]
		missing = missing[len(batch):]
		items := make([]Vector, len(batch))
		for i, n := range batch {
			items[i] = vector(n, killDim, "k")
		}
		if err := s.PutVectors(killModel, items); err != nil {
			return err
		}
		fmt.Println("acked " + strings.Trim(fmt.Sprint(batch), "[]"))
	}
	return s.Close()
}

// TestKilledWhileIndexing kills a writer thirty times. After each kill the store
// opens, every acknowledged vector is there, and the next writer embeds none of
// them again.
func TestKilledWhileIndexing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "catalog")
	embedded := make([]int, killAll) // how often each vector was acknowledged
	acked := 0
	note := func(line string) {
		rest, ok := strings.CutPrefix(line, "acked ")
		if !ok {
			return
		}
		for _, field := range strings.Fields(rest) {
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatalf("the helper says %q", line)
			}
			embedded[n]++
			acked++
		}
	}
	for kill := range kills {
		p := start(t, helper(t, "index", path, "some"))
		if l := p.line(t); !strings.HasPrefix(l, "opened") {
			t.Fatalf("the helper says %q", l)
		}
		// The moment of the kill moves through the work on a batch.
		for range 1 + kill%3 {
			note(p.line(t))
		}
		wait := time.NewTimer(time.Duration(kill*137%1000) * time.Microsecond)
		<-wait.C
		_ = p.Process.Kill()
		for l := range p.lines {
			note(l)
		}
		p.kill()

		s := mustOpen(t, path, Options{})
		if s.Rebuilt() != "" {
			t.Fatalf("kill %d: rebuilt: %s", kill, s.Rebuilt())
		}
		there := present(t, s, killModel, killAll, killDim, "k")
		for n, times := range embedded {
			if times > 0 && !there[n] {
				t.Fatalf("kill %d: vector %d was acknowledged and is gone", kill, n)
			}
		}
		mustClose(t, s)
	}
	if acked == killAll {
		t.Fatal("the work was over before the kills were")
	}
	p := start(t, helper(t, "index", path, "all"))
	for l := range p.lines {
		note(l)
	}
	for n, times := range embedded {
		// A batch may be on disk whose acknowledgement the kill cut off.
		if times > 1 {
			t.Errorf("vector %d was embedded %d times", n, times)
		}
	}
	s := mustOpen(t, path, Options{})
	defer mustClose(t, s)
	if n := countTrue(present(t, s, killModel, killAll, killDim, "k")); n != killAll {
		t.Errorf("in the end %d of %d are there", n, killAll)
	}
}

// holdHelper opens the store, and holds it until its input ends.
func holdHelper(path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	fmt.Println("held")
	if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
		return errors.New("unexpected input")
	}
	return s.Close()
}

// TestTwoProcesses opens what another process holds, and again after it ended or
// was killed.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		path := t.TempDir()
		cmd := helper(t, "hold", path)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, cmd)
		if l := p.line(t); l != "held" {
			t.Fatalf("the helper says %q", l)
		}
		before := snapshot(t, path)
		if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) {
			t.Fatalf("Open of a held store: %v", err)
		}
		for name, content := range snapshot(t, path) {
			if before[name] != content {
				t.Errorf("%s was changed under its holder", name)
			}
		}
		if killed {
			p.kill()
		} else {
			_ = in.Close()
			for range p.lines { // Wait demands that all is read
			}
			p.once.Do(func() {
				if err := p.Wait(); err != nil {
					t.Errorf("the holder: %v: %s", err, p.errs)
				}
			})
		}
		s := mustOpen(t, path, Options{})
		if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) {
			t.Errorf("Open twice in one process: %v", err)
		}
		mustClose(t, s)
	}
}
