package metamcp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// auditPatience is how long the end of the process waits for the audit log to be
// opened, or to be written.
const auditPatience = 5 * time.Second

// auditor keeps the audit log. The log is opened with the first call, on a
// goroutine of its own, since a host that only lists has nothing to record.
type auditor struct {
	e    *Engine
	opts audit.Options

	mu      sync.Mutex
	log     *audit.Log    // nil until it is open
	opening chan struct{} // closed once that is decided; nil: nobody began
	began   time.Time     // that
	waiting []audit.Entry // until it is open
	bytes   int           // of the arguments in waiting
	refused bool          // it cannot be opened
	why     error         // that it cannot
	missed  uint64        // entries that found no room while it was being opened
	ended   bool          // nothing more is recorded
	late    bool          // close waits no longer for the log to be opened
}

// newAuditor returns nil where there is to be no audit log.
func (e *Engine) newAuditor(st *config.Settings) *auditor {
	if st.Audit.File == "" {
		return nil
	}
	return &auditor{e: e, opts: audit.Options{
		Path: st.Audit.File, Name: fmt.Sprintf("host-%d", os.Getpid()), Started: e.started, PlainArgs: st.Audit.PlainArgs,
		Scrub: func(args json.RawMessage) json.RawMessage {
			return e.secrets.Load().JSON(args)
		},
		ScrubName: func(name string) string { return e.secrets.Load().Text(name) },
		OnProblem: func(err error) { e.log.Error("the audit log has a problem", "error", err) },
	}}
}

// called records one call. It never waits for the disk.
func (a *auditor) called(r *actors.CallReport) {
	entry := audit.Entry{
		Kind: audit.KindCall, Time: r.Started, Session: r.Call.Session, Request: r.Call.Trace,
		Server: r.Call.Server, Args: r.Call.Payload(), Outcome: r.Outcome, Duration: r.Took,
		ResultBytes: r.Answer.PayloadBytes(), Redacted: r.Answer.Redacted,
	}
	if r.Call.OfTool() {
		entry.Tool = r.Call.Tool
	} else {
		entry.Method = r.Call.Method
	}
	a.name(&entry)
	if r.Answer.Err != nil {
		entry.Class = string(r.Answer.Err.Class)
	}
	a.append(entry)
}

// executed records one script; its calls are recorded by themselves.
func (a *auditor) executed(run *messages.Run, r *messages.RunReport, outcome string, begun time.Time, redacted map[string]int) {
	code, _ := json.Marshal(map[string]string{"code": run.Code}) // a string always marshals
	entry := audit.Entry{
		Kind: audit.KindExecute, Time: begun, Session: run.Session, Request: run.Trace, Tool: toolExecute,
		Args: code, Outcome: outcome, Duration: time.Since(begun), Redacted: redacted,
	}
	if r.Outcome != nil {
		entry.ResultBytes = len(r.Outcome.Value)
	}
	a.name(&entry)
	a.append(entry)
}

// provisioned records one request for a server, and what was decided.
func (a *auditor) provisioned(p *messages.Provision, req *ProvisionRequest, r *messages.ProvisionReport, outcome string, begun time.Time) {
	asked, _ := json.Marshal(req) // plain fields always marshal
	entry := audit.Entry{
		Kind: audit.KindProvision, Time: begun, Session: p.Session, Request: p.Trace, Server: r.Server, Tool: toolProvision,
		Args: asked, Outcome: outcome, Duration: time.Since(begun),
		Decision: &audit.Decision{
			Decision: string(r.Decision), Source: r.Source, Package: r.Package, Version: r.Version, Confidence: r.Confidence,
			Trusted: r.Trusted, Gate: r.Gate, Reason: r.Reason,
		},
	}
	if r.Err != nil {
		entry.Class = string(r.Err.Class)
		if entry.Decision.Reason == "" {
			entry.Decision.Reason = r.Err.Message
		}
	}
	entry.Decision.Reason = string(a.e.secrets.Load().Bytes([]byte(entry.Decision.Reason)))
	a.name(&entry)
	a.append(entry)
}

// name says who asked.
func (a *auditor) name(entry *audit.Entry) {
	if p, ok := a.e.clients.Load(entry.Session); ok {
		info := p.(client).peer.GetClientInfo()
		entry.Client = audit.Client{Name: info.Name, Version: info.Version}
	}
}

func (a *auditor) append(entry audit.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.log != nil:
		a.log.Append(entry)
		return
	case a.refused, a.ended:
		return
	case !audit.Room(len(a.waiting), a.bytes, len(entry.Args)):
		a.missed++
		return
	}
	a.waiting = append(a.waiting, entry)
	a.waiting[len(a.waiting)-1].Bound()
	a.bytes += len(entry.Args)
	if a.opening == nil {
		a.opening, a.began = make(chan struct{}), time.Now()
		go a.open()
	}
}

func (a *auditor) open() {
	defer close(a.opening)
	log, err := audit.Open(a.opts)
	if err != nil {
		a.e.log.Error("calls are not recorded in the audit log", "error", err)
	}
	if a.opened(log, err) {
		ctx, cancel := context.WithTimeout(context.Background(), auditPatience)
		defer cancel()
		_ = log.Close(ctx) // whoever could be told has gone
	}
}

// opened gives the log what waits for it, and says whether nobody else closes it.
func (a *auditor) opened(log *audit.Log, err error) (alone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log, a.refused, a.why = log, err != nil, err
	if err == nil {
		for _, entry := range a.waiting {
			log.Append(entry)
		}
		log.Missed(a.missed)
	}
	a.waiting, a.bytes = nil, 0
	return a.late && err == nil
}

// problem is why nothing is recorded; "" where it is.
func (a *auditor) problem() string {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.why != nil:
		return a.why.Error()
	case a.opening != nil && a.log == nil && time.Since(a.began) > auditPatience:
		return "the audit log is still being opened, since " + a.began.Format(time.TimeOnly)
	default:
		return ""
	}
}

// close writes what is queued and ends the log. A disk that does not answer does not
// keep the process from ending.
func (a *auditor) close(ctx context.Context) error {
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	a.mu.Lock()
	opening := a.opening
	a.ended = true // or a call that comes later, and is refused, would open it for good
	a.mu.Unlock()
	if opening == nil {
		return nil
	}
	select {
	case <-opening:
	case <-ctx.Done():
	}
	a.mu.Lock()
	a.late = a.log == nil && !a.refused
	late, log := a.late, a.log
	a.mu.Unlock()
	if late {
		return fmt.Errorf("the audit log was not opened in time: %w", ctx.Err())
	}
	return log.Close(ctx)
}
