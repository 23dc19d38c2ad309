package actors

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// launch starts a worker on a goroutine that stays with it, so that the end of
// the host waits for the end of the process.
func (s *sandboxActor) launch(ctx *kernel.Context) {
	s.last++
	n, sys, self := s.last, ctx.System(), s.self
	ear := &workerEar{sys: sys, sandbox: self, n: n, gone: make(chan struct{})}
	s.slots[n] = &slot{n: n, ear: ear, since: time.Now(), late: ctx.After(workerStartup, &workerLate{n})}
	sys.Go(func(over context.Context) {
		w, err := s.launcher.Launch(ear)
		sys.Send(self, &workerLaunched{n, w, err})
		if err != nil {
			return
		}
		select {
		case <-ear.gone:
		case <-over.Done():
			w.Kill()
			<-ear.gone
		}
	}, func(reason any) {
		sys.Send(self, &workerLaunched{n, nil, fmt.Errorf("starting it broke inside metamcp: %v", reason)})
	})
}

func (s *sandboxActor) onLaunched(ctx *kernel.Context, m *workerLaunched) {
	w := s.slots[m.n]
	switch {
	case w == nil:
	case m.err != nil:
		s.remove(w)
		if w.state == workerStarting {
			s.startFailed(ctx, m.err)
		}
	default:
		w.w = m.w
		if ctx.Tracing() {
			ctx.Event("worker", "process "+strconv.Itoa(m.w.PID())+" was started", 0)
		}
		if w.state == workerEnding {
			m.w.Kill()
		}
	}
	s.settle(ctx)
}

// startFailed tells those who wait when there is no hope.
func (s *sandboxActor) startFailed(ctx *kernel.Context, err error) {
	s.failedStarts++
	ctx.Event("worker-failed", err.Error(), 0)
	if s.failedStarts < maxFailedStarts {
		return
	}
	s.e.opts.Log.Error("the process of the sandbox does not start", "error", err)
	s.failedStarts, s.used = 0, false
	for _, r := range s.waiting {
		ctx.Send(r.pid, &scriptWorker{fmt.Errorf("the process of the sandbox does not start: %w", err)})
	}
	s.waiting = nil
}

func (s *sandboxActor) onGone(ctx *kernel.Context, m *workerGone) {
	w := s.slots[m.n]
	if w == nil {
		return
	}
	s.remove(w)
	if ctx.Tracing() {
		ctx.Event("worker", fmt.Sprintf("a process that was %s has ended: %v", w.state, m.err), 0)
	}
	switch {
	case w.state == workerStarting:
		s.startFailed(ctx, fmt.Errorf("it ended before it was ready: %w", orUnknown(m.err)))
	case w.state == workerIdle:
		s.failedStarts++ // or one that dies right after its start would be followed by another for ever
	case w.run != nil:
		ctx.Send(w.run.pid, &scriptWorker{m.err})
	}
	s.settle(ctx)
}

func orUnknown(err error) error {
	if err == nil {
		return errWorkerEnded
	}
	return err
}

func (s *sandboxActor) remove(w *slot) {
	w.late.Stop()
	delete(s.slots, w.n)
}

// end kills a worker. Its slot stays until the process is gone.
func (s *sandboxActor) end(w *slot) {
	w.state = workerEnding
	w.late.Stop()
	w.ear.run.Store(nil)
	if w.w != nil {
		w.w.Kill()
	}
}

// onIdle ends the workers that nobody has needed for a while.
func (s *sandboxActor) onIdle(ctx *kernel.Context, m *sandboxIdle) {
	if m.gen != s.idleGen {
		return
	}
	ctx.Event("sandbox-idle", "nobody has run a script for "+s.settings.Idle.String(), 0)
	for _, w := range s.slots {
		if w.state == workerIdle || w.state == workerStarting {
			s.end(w)
		}
	}
	s.used = false
	s.publish()
}

// publish lets everybody see how the sandbox does.
func (s *sandboxActor) publish() {
	st := &messages.SandboxStatus{Running: s.running(), Waiting: len(s.waiting), Runs: s.ended, Failed: s.failed}
	for _, w := range s.slots {
		line := messages.SandboxWorker{State: w.state.String(), Since: w.since, Confined: w.confined}
		if w.w != nil {
			line.PID = w.w.PID()
		}
		if w.run != nil {
			line.Run = w.run.pid.GetId()
		}
		st.Workers = append(st.Workers, line)
	}
	slices.SortFunc(st.Workers, func(a, b messages.SandboxWorker) int { return a.Since.Compare(b.Since) })
	s.e.sandboxStatus.Store(st)
}

// displace makes room for a script of a client where all who may wait do: of the
// client that has most scripts there, in all its sessions, the newest is turned away.
// It reports false where that client has no more of them than the other would have.
func (s *sandboxActor) displace(ctx *kernel.Context, sharer uint64) bool {
	waiting := map[uint64]int{}
	most := sharer
	for _, r := range s.waiting {
		if waiting[r.sharer]++; waiting[r.sharer] > waiting[most] {
			most = r.sharer
		}
	}
	if waiting[most] <= waiting[sharer]+1 {
		return false
	}
	for i := len(s.waiting) - 1; i >= 0; i-- {
		if r := s.waiting[i]; r.sharer == most {
			why := s.crowded()
			s.waiting = slices.Delete(s.waiting, i, i+1)
			ctx.Send(r.pid, &scriptWorker{why})
			break
		}
	}
	return true
}

// crowded is for a script for which there is no room to wait.
func (s *sandboxActor) crowded() *messages.Error {
	return &messages.Error{
		Code: messages.CodeSandbox, Retryable: true,
		Message: fmt.Sprintf("%d scripts run and %d wait for their turn, which is the most that the sandbox takes; this one did not begin", s.running(), len(s.waiting)),
		Hint:    "Run fewer scripts at the same time, or do more in one script.",
	}
}
