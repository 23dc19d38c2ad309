package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/relay"
)

// handoverTime is how long the host before may take to let go of its place.
const handoverTime = 10 * time.Second

// hostFlags are the flags of the command host.
type hostFlags struct {
	replace bool
	logFile string
	words   []string // the other flags, for the host that comes after this one
	// recovered counts the hosts before, in a row, that found themselves damaged.
	recovered int
	began     time.Time
}

// ending is what somebody asked for.
type ending struct{ now bool }

// runHost is the host that clients attach to. It ends at a signal, when it is
// asked to over its socket, or when the runtime gives up, and then another host
// takes over from it. Clients hear of it and look for the next host, calls in
// flight are answered, all children end. A second signal skips the waiting.
func runHost(parent context.Context, c *common, f *hostFlags) error {
	outliveReaders()
	f.began = time.Now()
	if err := c.checkWeb(); err != nil {
		return err
	}
	if f.logFile != "" {
		logs, err := openDetachedLogs(f.logFile)
		if err != nil {
			return fmt.Errorf("--log-file: %w", err)
		}
		defer logs.close()
		c.stderr, c.traceOut = logs.log, logs.trace
	}
	over := make(chan struct{})
	defer close(over)
	go paceHeap(over)
	asked := make(chan ending, 2)
	go hostSignals(asked, over)

	e, err := c.open(parent, true)
	if err != nil {
		return err
	}
	h, err := c.openHost(parent, e, f, asked)
	if h == nil {
		return errors.Join(err, closeWithin(parent, e.Config().Settings.DrainTimeout+endTime(e.EndTime()), e.Close))
	}
	wait := time.Duration(0)
	if f.replace {
		wait = e.Config().Settings.DrainTimeout + endTime(e.EndTime())
	}
	pages := c.openPages(e, wait)
	info := h.Info()
	fmt.Fprintf(c.stderr, "metamcp: %s host %s (pid %d, metamcp %s) serves %s\n", time.Now().Format(time.RFC3339), info.Name, info.PID, info.Version, info.Socket)
	if info.HTTP != "" {
		fmt.Fprintln(c.stderr, "metamcp: MCP over HTTP at", info.HTTP)
	}
	leaving := make(chan struct{})
	go watchHTTP(e, h.HTTP(), leaving)
	notify(e, daemon.SdNotifyReady+"\nSTATUS=host "+info.Name)
	go feedWatchdog(e, over) //nolint:gosec // G118: it lives as long as the host

	var end ending
	select {
	case end = <-asked:
	case <-e.GaveUp():
		end = c.passOn(parent, e, f, asked)
	}
	close(leaving)
	pages.settle()
	notify(e, daemon.SdNotifyStopping)
	patience := e.Config().Settings.DrainTimeout
	if end.now {
		patience = 0
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), patience+endTime(e.EndTime()))
	defer cancel()
	drained, until := make(chan struct{}), time.Now().Add(patience)
	go hurry(e, asked, drained)
	// The relays first: what they send from then on goes to the next host, while
	// an engine that drains would refuse it.
	err = h.Drain(ctx, patience)
	e.Drain(until) // what is left has no time of its own
	err = errors.Join(err, e.Close(ctx))
	close(drained)
	err = errors.Join(err, closeWithin(parent, restTimeout, h.Close), closeWithin(parent, restTimeout, pages.close))
	select {
	case <-e.GaveUp():
		err = errors.Join(err, errDamaged)
	default:
	}
	fmt.Fprintf(c.stderr, "metamcp: %s host %s (pid %d) has ended\n", time.Now().Format(time.RFC3339), info.Name, info.PID)
	return err
}

// hostSignals passes signals on until over is closed.
func hostSignals(asked chan<- ending, over <-chan struct{}) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, relay.EndSignals()...)
	defer signal.Stop(signals)
	for again := false; ; again = true {
		select {
		case <-signals:
			ask(asked, again)
		case <-over:
			return
		}
	}
}

func ask(asked chan<- ending, now bool) {
	select {
	case asked <- ending{now}:
	default: // two were asked for already
	}
}

// hurry ends the calls in flight where somebody asks for that, or sends a second
// signal. Others who ask for the end, as those who take the place do, have what they want.
func hurry(e *metamcp.Engine, asked <-chan ending, drained <-chan struct{}) {
	for {
		select {
		case end := <-asked:
			if !end.now {
				continue
			}
			e.Log().Warn("asked to end at once; calls in flight are not waited for")
			e.Drain(time.Now())
			return
		case <-drained:
			return
		}
	}
}

func closeWithin(parent context.Context, limit time.Duration, closing func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), limit)
	defer cancel()
	return closing(ctx)
}

// openHost takes the place of a host, from the one that has it where replace is
// set. That one is asked only now that this one could be opened, with all that it
// serves. nil without an error: this one was asked to end, which was said.
func (c *common) openHost(ctx context.Context, e *metamcp.Engine, f *hostFlags, asked chan<- ending) (*metamcp.SharedHost, error) {
	cfg := e.Config()
	web, err := newHostHTTP(c.http, cfg)
	if err != nil {
		return nil, err
	}
	if err := web.prepare(ctx, e, f.replace); err != nil {
		if info, _ := hostOf(cfg).living(ctx); !f.replace && info != nil { // which is why the address is in use
			err = &metamcp.Error{
				Code: control.CodeAlreadyRuns, Message: fmt.Sprintf("a host runs already for this configuration: %s (pid %d)", oneLine(info.Name), info.PID),
				Hint: "See it with `metamcp host status`, or replace it with `metamcp host restart`.",
			}
		}
		return nil, err
	}
	o := metamcp.HostOptions{Name: c.name, Manager: manager(), HTTP: web.l, Flags: f.words, Log: f.logFile, Stop: func(now bool) { ask(asked, now) }}
	var h *metamcp.SharedHost
	if f.replace {
		h, err = takePlace(ctx, e, o, web, asked)
	} else {
		h, err = e.OpenHost(o)
	}
	if errors.Is(err, errAskedToEnd) {
		fmt.Fprintln(c.stderr, "metamcp:", err)
		err = nil // it ends in order
	}
	if h == nil {
		return nil, errors.Join(err, closeWithin(ctx, restTimeout, web.close))
	}
	return h, nil
}

// errAskedToEnd is of a host that somebody asked to end while it started.
var errAskedToEnd = errors.New("it was asked to end before it took the place; the host that runs goes on")

// takePlace asks the host that runs, if there is one, to end and takes its place. Who
// looks for a host meanwhile is told to wait. Where this one is asked to end before, the
// other goes on.
func takePlace(ctx context.Context, e *metamcp.Engine, o metamcp.HostOptions, web *hostHTTP, asked chan<- ending) (*metamcp.SharedHost, error) {
	cfg := e.Config()
	// Before the other one is asked: it goes on where this one cannot begin.
	if err := control.CheckPlace(ctx, cfg.Settings.StateDir, cfg.Files); err != nil {
		return nil, fmt.Errorf("the place of the host cannot be taken: %w", err)
	}
	deadline := time.Now().Add(handoverTime)
	over, err := attach.Announce(cfg.Settings.StateDir, cfg.Files)
	if err != nil {
		return nil, err
	}
	defer over()
	told := map[int]bool{}
	for {
		// More than one where a link to the configuration leads elsewhere by now.
		for _, info := range attach.Find(cfg.Settings.StateDir, cfg.Files) {
			if told[info.PID] {
				continue
			}
			if len(told) == 0 && len(asked) > 0 {
				return nil, errAskedToEnd
			}
			switch err := stopHost(ctx, info, false); {
			case err == nil:
				told[info.PID] = true
			case !control.WentAway(err):
				return nil, fmt.Errorf("the host that runs did not make way: %w", err)
			}
		}
		web.reopen(ctx, e, deadline)
		o.HTTP = web.l
		h, err := e.OpenHost(o)
		if !alreadyRuns(err) || time.Now().After(deadline) {
			return h, err
		}
		const pause = 10 * time.Millisecond
		time.Sleep(pause)
	}
}

func alreadyRuns(err error) bool {
	var e *control.Error
	return errors.As(err, &e) && e.Code == control.CodeAlreadyRuns
}

// stopHost asks a host to end, unless it has gone by itself. It has let go of its
// place then, and ends by itself.
func stopHost(ctx context.Context, info control.HostInfo, now bool) error {
	client, err := control.Dial(info)
	if attach.NobodyListens(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return askToStop(ctx, client, now)
}

func askToStop(ctx context.Context, client *control.Client, now bool) error {
	defer client.Close()
	path := "/v1/stop"
	if now {
		path += "?now=1"
	}
	answer, err := client.Do(ctx, "POST", path, nil)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// notify tells systemd of the state, where it started this process.
func notify(e *metamcp.Engine, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		e.Log().Warn("systemd cannot be told how the host is", "error", err)
	}
}

// feedWatchdog tells systemd that the host works, as long as its actors answer,
// and as often as systemd wants to hear it.
func feedWatchdog(e *metamcp.Engine, over <-chan struct{}) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		e.Log().Warn("the watchdog of systemd is not fed", "error", err)
	}
	if every <= 0 {
		return
	}
	const perInterval = 3 // so that one late ping is no death
	tick := time.NewTicker(every / perInterval)
	defer tick.Stop()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), every/perInterval)
		_, err := e.HostStatus(ctx, true)
		cancel()
		if err == nil {
			notify(e, daemon.SdNotifyWatchdog)
		} else {
			e.Log().Warn("the actors do not answer; the watchdog is not fed", "error", err)
		}
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}
