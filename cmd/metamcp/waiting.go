package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// whileWaiting runs do and, at a terminal, says every interval how long server
// has been waited for, in a line that goes when do is done. Without a server,
// or elsewhere than at a terminal, it only runs do. stderr must write at once:
// the line has to be gone before the answer is printed.
func whileWaiting(stderr io.Writer, terminal bool, server string, interval time.Duration, do func() error) error {
	if !terminal || server == "" {
		return do()
	}
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		start, longest := time.Now(), 0
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
				line := fmt.Sprintf("waiting for %q to start and list its tools, %v ", server, time.Since(start).Round(time.Second))
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
