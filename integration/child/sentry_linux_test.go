package child

import (
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Everybody who waits hears of data once, and nobody who has taken that back; a sentry
// that nobody waits for has no goroutine, and goes on with the next one.
func TestSentry(t *testing.T) {
	const many, rounds = 200, 5 // more than one look takes
	var s sentry
	for round := range rounds {
		ready := make(chan int, 2*many)
		readers, writers := make([]*os.File, many), make([]*os.File, many)
		fds := make([]int, many)
		for i := range many {
			var err error
			if readers[i], writers[i], err = os.Pipe(); err != nil {
				t.Fatal(err)
			}
			fds[i] = int(readers[i].Fd())
			if err := s.await(fds[i], func() { ready <- i }); err != nil {
				t.Fatal(err)
			}
		}
		const forgotten = many / 4
		for i := range forgotten {
			if !s.forget(fds[i]) || s.forget(fds[i]) {
				t.Fatalf("round %d: %d is not forgotten, or twice", round, i)
			}
		}
		var writing sync.WaitGroup
		for i := range many {
			writing.Go(func() { _, _ = writers[i].WriteString("x") }) // what does not come is missed below
		}
		writing.Wait()
		heard := map[int]bool{}
		for range many - forgotten {
			select {
			case i := <-ready:
				if heard[i] || i < forgotten {
					t.Errorf("round %d: %d is called, before: %t", round, i, heard[i])
				}
				heard[i] = true
			case <-time.After(time.Minute):
				t.Fatalf("round %d: %d of %d were called", round, len(heard), many-forgotten)
			}
		}
		s.mu.Lock()
		if s.waiting != nil {
			t.Errorf("round %d: %d are still waited for", round, len(s.waiting))
		}
		s.mu.Unlock()
		for i := range many {
			_, _ = readers[i].Close(), writers[i].Close()
		}
	}
}

// The end of a process is heard of whether it comes before or after somebody waits.
func TestSentryHearsOfEnds(t *testing.T) {
	var s sentry
	for _, script := range []string{"exit 3", "read x; exit 3"} {
		c := exec.CommandContext(t.Context(), "sh", "-c", script)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		if !s.exited(c.Process, func() { ended <- c.Wait() }) {
			_ = c.Process.Kill()
			_ = c.Wait()
			t.Fatal("this kernel has no descriptors of processes")
		}
		_ = in.Close() // it may have ended
		select {
		case err := <-ended:
			if want := "exit status 3"; err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", script, err, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("the end is not heard of:", script)
		}
	}
}
