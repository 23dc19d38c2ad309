package metamcp

import (
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/supervision"
)

const (
	// endMargin is what the end of all children may take beyond the longest ladder
	// of one: a slow machine looks long for what is left of them.
	endMargin = 10 * time.Second
	// restTime bounds what Close has to do when the children are gone, or are not in
	// their time. Each part of it has a bound of its own.
	restTime = 15 * time.Second
)

// EndTime is how long the servers of a configuration may take to end once nothing is
// in flight any more: as long as the longest stopGraceMs says, and some seconds. They end in parallel.
func EndTime(cfg *config.Config) time.Duration {
	longest := supervision.DefaultStopGrace
	for _, s := range cfg.Servers {
		if !s.Disabled && s.Err == nil {
			longest = max(longest, s.StopGrace)
		}
	}
	return longest + supervision.ReapWait + endMargin
}

// EndTime is [EndTime] of all configurations that were in force: children of an earlier
// one may have to end still.
func (e *Engine) EndTime() time.Duration { return time.Duration(e.endTime.Load()) }

// mayRun takes notice of how long what a configuration has may take to end. One
// goroutine at a time calls it.
func (e *Engine) mayRun(cfg *config.Config) {
	e.endTime.Store(max(e.endTime.Load(), int64(EndTime(cfg))))
}
