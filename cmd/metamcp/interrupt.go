package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// insistAfter is how long after the first interruption another one ends the process:
// the first may come twice, from the terminal and from a parent.
const insistAfter = 2 * time.Second

// untilInterrupted returns a context that ends with parent, with Ctrl-C and with
// SIGTERM. What a command waits for need not hear of that, such as the opening of a
// pipe: who insists ends the process, whose watchdog ends its servers. stop gives
// signals their ordinary effect back.
func untilInterrupted(parent context.Context) (ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, func() { time.AfterFunc(insistAfter, stop) })
	return ctx, stop
}

// outliveReaders lets this process write to a stderr that nobody reads any more: that
// is an error of the write then, and no longer the end of the process before its
// servers were ended. It holds to the end, for the last words too. The signal is not
// ignored, since whatever this process starts would inherit that.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
