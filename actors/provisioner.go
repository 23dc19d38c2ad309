package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

const (
	// maxProvisions bounds the requests that are under way, joined ones
	// included.
	maxProvisions = 64
	// maxLooks bounds those whose answer is being looked for: each may ask a
	// registry and servers that were never seen.
	maxLooks = 8
	// maxInstalls bounds the packages that are installed at the same time.
	maxInstalls = 4
	// lookTime and installTime bound the two halves of a request. What takes part
	// in them has tighter bounds of its own.
	lookTime    = 3 * time.Minute
	installTime = 15 * time.Minute
)

// ProvisionTool is what a trace calls the tool of a request for a server.
const ProvisionTool = "mcp_provision"

// Provisioner finds servers and installs them. Its methods are called on
// goroutines of their own, may take as long as they need, and end early with
// ctx. step may be called until they return.
type Provisioner interface {
	// Look finds out what there is for a request. Either it says what became of
	// the request, or what is to be installed; the report is then the request's
	// own part of the answer.
	Look(ctx context.Context, p *messages.Provision, step func(text string)) (*messages.ProvisionReport, ProvisionJob)
}

// ProvisionJob installs one package.
type ProvisionJob interface {
	// Key is the package, and what was given for it. Jobs with the same key are done
	// once.
	Key() string
	// Do installs it, and leaves nothing behind where the report does not say
	// that it was provisioned. That it was denied is about the request of this
	// job alone: what others ask for that wait with it is decided by a job of theirs.
	Do(ctx context.Context, step func(text string)) *messages.ProvisionReport
}

// provisionerActor owns what is under way to new servers. It asks nobody and
// installs nothing itself: that is done on goroutines that it starts and
// cancels, and what they say comes back as messages.
type provisionerActor struct {
	e    *Engine
	with Provisioner

	self      *kernel.PID
	asks      map[uint64]*provisionAsk // by the id of the request
	installs  map[string]*install      // by the package
	lastStart uint64
	decisions map[messages.ProvisionDecision]uint64
}

// provisionAsk is a request that was not answered yet.
type provisionAsk struct {
	p       *messages.Provision
	begun   time.Time
	step    int
	stop    context.CancelFunc        // of its look; nil: that is over
	found   *messages.ProvisionReport // by the look
	install *install                  // that it waits for; nil: none
	job     ProvisionJob              // its own of that; another's may be done for it
}

// install is a package that is being installed.
type install struct {
	n      uint64
	job    ProvisionJob
	of     uint64 // the request whose job it is
	stop   context.CancelFunc
	ending bool                     // nobody wants it any more; it is being undone
	asks   map[uint64]*provisionAsk // that wait for it
	next   []*provisionAsk          // that came while it was being undone
	step   string                   // the last one, for those who join
}

// What the goroutines say.
type (
	// provisionStepped says what a look does, or with a key an install.
	provisionStepped struct {
		messages.Meta
		ask  uint64
		key  string
		n    uint64
		text string
	}
	// provisionLooked ends a look.
	provisionLooked struct {
		messages.Meta
		ask    uint64
		report *messages.ProvisionReport
		job    ProvisionJob
	}
	// provisionDone ends an install.
	provisionDone struct {
		messages.Meta
		key    string
		n      uint64
		report *messages.ProvisionReport
	}
)

// What is still said to a provisioner that has stopped matters to nobody: it
// answered all and cancelled all, and whoever ends waits for the goroutines.
func (*provisionStepped) Transient() {}
func (*provisionLooked) Transient()  {}
func (*provisionDone) Transient()    {}

func newProvisioner(e *Engine, with Provisioner) *provisionerActor {
	return &provisionerActor{
		e: e, with: with, asks: map[uint64]*provisionAsk{}, installs: map[string]*install{}, decisions: map[messages.ProvisionDecision]uint64{},
	}
}

// StateName implements kernel.Stater.
func (a *provisionerActor) StateName() string {
	switch {
	case len(a.installs) > 0:
		return "INSTALLING"
	case len(a.asks) > 0:
		return "LOOKING"
	}
	return "IDLE"
}

// Receive implements kernel.Actor.
func (a *provisionerActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *messages.Provision:
		a.onProvision(ctx, m)
	case *messages.Cancel:
		a.onCancel(ctx, m)
	case *provisionStepped:
		a.onStepped(m)
	case *provisionLooked:
		a.onLooked(ctx, m)
	case *provisionDone:
		a.onDone(ctx, m)
	case kernel.Started:
		a.self = ctx.Self()
		return
	case kernel.Stopping:
		a.onStopping()
	default:
		return
	}
	a.publish()
}

// onProvision begins to look for what was asked for, or refuses to.
func (a *provisionerActor) onProvision(ctx *kernel.Context, p *messages.Provision) {
	ask := &provisionAsk{p: p, begun: time.Now()}
	a.e.trace.began(messages.TraceRequest, asCall(p), a.self.GetId())
	looks := 0
	for _, other := range a.asks {
		if other.stop != nil {
			looks++
		}
	}
	switch {
	case a.e.closed.Load():
		a.end(ask, failedProvision(supervision.ShuttingDown("")))
		return
	case p.Cancelled != nil && p.Cancelled.Load(): // perhaps before it was on record
		a.end(ask, failedProvision(cancelledProvision("the caller gave up")))
		return
	case looks >= maxLooks || len(a.asks) >= maxProvisions:
		a.end(ask, failedProvision(&messages.Error{
			Code: messages.CodePoolSaturated, Retryable: true, RetryAfter: 5 * time.Second,
			Message: fmt.Sprintf("%d requests for servers are under way, which is the most that metamcp takes at a time", len(a.asks)),
			Hint:    "Wait for their answers, then ask again.",
		}))
		return
	}
	a.asks[p.ID] = ask
	sys, self, with := ctx.System(), a.self, a.with
	looking, stop := context.WithTimeout(context.Background(), lookTime)
	ask.stop = stop
	say := func(text string) {
		sys.Send(self, &provisionStepped{Meta: messages.Meta{Trace: p.Trace}, ask: p.ID, text: text})
	}
	sys.Go(func(over context.Context) {
		defer stop()
		defer context.AfterFunc(over, stop)()
		report, job := with.Look(looking, p, say)
		sys.Send(self, &provisionLooked{Meta: messages.Meta{Trace: p.Trace}, ask: p.ID, report: report, job: job})
	}, func(reason any) {
		sys.Send(self, &provisionLooked{Meta: messages.Meta{Trace: p.Trace}, ask: p.ID, report: brokenProvision(reason)})
	})
}

// onLooked answers a request, or has installed what it needs.
func (a *provisionerActor) onLooked(ctx *kernel.Context, m *provisionLooked) {
	ask := a.asks[m.ask]
	if ask == nil {
		return // it was given up
	}
	ask.stop, ask.found, ask.job = nil, m.report, m.job
	if m.job == nil {
		a.end(ask, m.report)
		return
	}
	a.install(ctx, ask)
}

// install lets a request wait for a package, which is installed once however
// many want it.
func (a *provisionerActor) install(ctx *kernel.Context, ask *provisionAsk) {
	job := ask.job
	key := job.Key()
	in := a.installs[key]
	switch {
	case in != nil && in.ending:
		ask.install = in
		in.next = append(in.next, ask)
		a.tell(ask, "waiting until an earlier attempt is undone")
		return
	case in != nil:
		ask.install = in
		in.asks[ask.p.ID] = ask
		a.tell(ask, in.step)
		ctx.Event("provision-joined", key+" is being installed already", ask.p.Trace)
		return
	case len(a.installs) >= maxInstalls:
		a.end(ask, failedProvision(&messages.Error{
			Code: messages.CodePoolSaturated, Retryable: true, RetryAfter: 15 * time.Second,
			Message: fmt.Sprintf("%d servers are being installed, which is the most at a time; %s was not begun", len(a.installs), key),
			Hint:    "Ask again when one of them is done.",
		}))
		return
	}
	a.lastStart++
	n := a.lastStart
	working, stop := context.WithTimeout(context.Background(), installTime)
	in = &install{n: n, job: job, of: ask.p.ID, stop: stop, asks: map[uint64]*provisionAsk{ask.p.ID: ask}}
	a.installs[key] = in
	ask.install = in
	sys, self, meta := ctx.System(), a.self, messages.Meta{Trace: ask.p.Trace}
	say := func(text string) {
		sys.Send(self, &provisionStepped{Meta: meta, key: key, n: n, text: text})
	}
	ctx.Event("provision-begun", key, ask.p.Trace)
	sys.Go(func(over context.Context) {
		defer stop()
		defer context.AfterFunc(over, stop)()
		sys.Send(self, &provisionDone{Meta: meta, key: key, n: n, report: job.Do(working, say)})
	}, func(reason any) {
		sys.Send(self, &provisionDone{Meta: meta, key: key, n: n, report: brokenProvision(reason)})
	})
}

func (a *provisionerActor) onStepped(m *provisionStepped) {
	if m.key == "" {
		if ask := a.asks[m.ask]; ask != nil && ask.stop != nil {
			a.tell(ask, m.text)
		}
		return
	}
	in := a.installs[m.key]
	if in == nil || in.n != m.n || in.ending {
		return
	}
	in.step = m.text
	for _, ask := range in.asks {
		a.tell(ask, m.text)
	}
}

func (a *provisionerActor) tell(ask *provisionAsk, text string) {
	if text == "" {
		return
	}
	ask.step++
	a.e.sys.Contain(nameProvisioner, func() { ask.p.Reply.Stepped(messages.ProvisionStep{Number: ask.step, Text: text}) })
}

// onDone answers all who waited for a package.
func (a *provisionerActor) onDone(ctx *kernel.Context, m *provisionDone) {
	in := a.installs[m.key]
	if in == nil || in.n != m.n {
		return
	}
	delete(a.installs, m.key)
	ctx.Event("provision-ended", m.key+": "+string(m.report.Decision), m.Trace)
	for id, ask := range in.asks {
		if m.report.Decision == messages.DecisionDenied && id != in.of {
			in.next = append(in.next, ask)
			continue
		}
		own := *m.report
		own.Notes = slices.Concat(ask.found.Notes, own.Notes)
		a.end(ask, &own)
	}
	for _, ask := range in.next {
		if a.asks[ask.p.ID] == ask {
			a.install(ctx, ask)
		}
	}
}

// onCancel lets go of a request.
func (a *provisionerActor) onCancel(ctx *kernel.Context, m *messages.Cancel) {
	ask := a.asks[m.Call]
	if ask == nil {
		return
	}
	if ask.stop != nil {
		ask.stop()
	}
	if in := ask.install; in != nil {
		delete(in.asks, ask.p.ID)
		if len(in.asks) == 0 && !in.ending {
			in.ending = true
			in.stop()
			ctx.Event("provision-undone", in.job.Key()+": nobody waits for it any more", ask.p.Trace)
		}
	}
	reason := m.Reason
	if reason == "" {
		reason = "the caller gave up"
	}
	a.end(ask, failedProvision(cancelledProvision(reason)))
}

// onStopping ends everything: the host closes.
func (a *provisionerActor) onStopping() {
	for _, in := range a.installs {
		in.ending = true
		in.stop()
	}
	for _, ask := range a.asks {
		if ask.stop != nil {
			ask.stop()
		}
		a.end(ask, failedProvision(errShutDown("it worked on this")))
	}
}

// end answers a request, once.
func (a *provisionerActor) end(ask *provisionAsk, r *messages.ProvisionReport) {
	delete(a.asks, ask.p.ID)
	own := *r
	own.Took = time.Since(ask.begun)
	a.decisions[own.Decision]++
	a.publish() // before somebody who has the answer looks
	a.e.trace.provisionEnded(asCall(ask.p), &own, a.self.GetId())
	a.e.sys.Contain(nameProvisioner, func() { ask.p.Reply.Ended(&own) })
}

// publish lets everybody see how the provisioner does.
func (a *provisionerActor) publish() {
	st := &messages.ProvisionStatus{Installing: slices.Sorted(maps.Keys(a.installs)), Decisions: maps.Clone(a.decisions)}
	for _, ask := range a.asks {
		if ask.stop != nil {
			st.Looking++
		}
	}
	a.e.provisionStatus.Store(st)
}
