package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// whileWaiting runs do and, at a terminal, says every interval how long server,
// or where that is empty any server, has been waited for, in a line that goes
// when do is done. Elsewhere than at a terminal it only runs do. stderr must write at once:
// the line has to be gone before the answer is printed.
func whileWaiting(stderr io.Writer, terminal bool, server string, interval time.Duration, do func() error) error {
	if !terminal {
		return do()
	}
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		start, longest := time.Now(), 0
		what := "servers"
		if server != "" {
			what = strconv.Quote(server)
		}
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				if longest > 0 {
					fmt.Fprintf(stderr, "\r%s\r", strings.Repeat(" ", longest))
				}
				return
			case <-tick.C:
				line := fmt.Sprintf("waiting for %s to start and list tools, %v ", what, time.Since(start).Round(time.Second))
				longest = max(longest, len(line))
				fmt.Fprint(stderr, "\r"+line)
			}
		}
	})
	err := do()
	close(done)
	saying.Wait()
	return err
}
