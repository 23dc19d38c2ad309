package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/metamcp/metamcp"
)

// A host that finds itself damaged does not mend itself: it starts the host that
// takes over from it, as "metamcp host restart" does. Where that does not help it is
// not tried for ever.
const (
	// mostRecoveries is how many hosts in a row may do so.
	mostRecoveries = 3
	// soundFor is how long a host has to work for the count to begin anew.
	soundFor = 10 * time.Minute
)

var errDamaged = errors.New("an actor that the host cannot do without failed again and again; see the log")

// passOn starts the host that takes over from this one, and returns when that one
// asks for the place, when somebody else asks this one to end, or when no host takes
// over. Clients are served meanwhile, as well as that goes.
func (c *common) passOn(ctx context.Context, e *metamcp.Engine, f *hostFlags, asked <-chan ending) ending {
	times := 1
	if time.Since(f.began) < soundFor {
		times += f.recovered
	}
	switch by := manager(); {
	case by != "":
		e.Log().Error("the host is damaged and ends; it is started anew by who keeps it", "manager", by)
		return ending{}
	case os.Getpid() == 1:
		e.Log().Error("the host is damaged and ends; as the first process of a container it cannot start another one")
		return ending{}
	case times > mostRecoveries:
		e.Log().Error("the host is damaged and ends; no other one is started, since that did not help before",
			"hosts", times, "hint", "what failed stands above; metamcp host start starts one")
		return ending{}
	}
	cfg := e.Config()
	log := f.logFile
	if log == "" {
		log = hostLog(cfg)
	}
	fmt.Fprintf(c.stderr, "metamcp: %s the host (pid %d) is damaged and starts another one, which takes over; that one's log is %s\n",
		time.Now().Format(time.RFC3339), os.Getpid(), log)
	words := append([]string{"host", "--log-file", log, "--replace", "--recovered=" + strconv.Itoa(times)}, hostWords(cfg, f.words)...)
	failed := make(chan error, 1)
	go func() {
		if _, err := spawnHost(ctx, cfg, log, words); err != nil {
			failed <- err
		}
	}()
	select {
	case end := <-asked: // by the next host, most likely
		return end
	case err := <-failed:
		e.Log().Error("the host is damaged and ends, and no other one could be started", "error", err)
		return ending{}
	}
}
