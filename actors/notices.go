package actors

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Bounds of the subscriptions to resources.
const (
	maxSubscriptions    = 16_384 // of all clients
	maxSubscriptionsOne = 4096   // of one client, which may have a port with each request
	// maxSubscribedURI is the longest URI that is subscribed to, in bytes.
	maxSubscribedURI = 8 << 10
	// firstRenewal and lastRenewal bound how long a lost subscription waits
	// until its server is started for it again.
	firstRenewal = time.Second
	lastRenewal  = time.Minute
)

// ChildList names a list that a server may say has changed.
type ChildList string

// The lists that are not kept in the catalog.
const (
	ResourceList ChildList = "resources"
	PromptList   ChildList = "prompts"
)

// UpdatePort hears of changes of a resource. It does not block.
type UpdatePort interface {
	// Updated gets the params of notifications/resources/updated as the child
	// sent them, and the URI under which the client subscribed. Where the child
	// tells of a part of that resource it is the URI of the part, in the same form.
	Updated(uri string, params json.RawMessage)
}

// Topic is one resource of a server, in the server's own words.
type Topic struct{ Server, URI string }

// place is a server, or that of a session which has instances of its own
// (messages.ScopeSession).
type place struct {
	server string
	owner  uint64 // the session; 0: everybody
}

// topicAt is a resource as one place has it: two instances of a server may say
// different things under one URI.
type topicAt struct {
	Topic
	owner uint64
}

func (t topicAt) place() place { return place{t.Server, t.owner} }

// noticesActor owns the subscriptions to resources: which clients have them, and
// which child. It asks a child once for all of its clients, which is one where a
// session has instances of its own; again when another child takes the place of the
// one that it asked; and no more once the last client is gone.
type noticesActor struct {
	e       *Engine
	running map[string][]runningChild // by server, the oldest first
	topics  map[topicAt]*topic
	places  map[place]int      // topics of each
	ports   map[UpdatePort]int // subscriptions of each
	clients map[uint64]int     // likewise, by session
	total   int
	renewal map[place]*renewal
}

type runningChild struct {
	instance uint64
	pid      *kernel.PID
	owner    uint64 // whose subscriptions it has; 0: everybody's
}

// topic is a resource that somebody is subscribed to, or wants to be.
type topic struct {
	at      uint64 // the child that was asked; 0: none
	asking  bool   // its answer is out
	who     map[subscriber]bool
	waiting []*Subscribe // for the answer
}

// subscriber is a port, the URI under which it knows the resource, and its session.
type subscriber struct {
	port    UpdatePort
	as      string
	session uint64
}

// renewal is the pause before a server is started for its subscriptions.
type renewal struct {
	pause time.Duration
	timer *kernel.Timer
	since time.Time // when what was lost was there again; zero: it was not yet
}

// What the notices hear.
type (
	// Subscribe asks for the updates of a resource, for as long as nobody
	// unsubscribes the port.
	Subscribe struct {
		Topic
		As      string // the URI that the port is told
		Port    UpdatePort
		Call    uint64 // number of the request
		Session uint64
		Reply   func(failure *messages.Answer) // once; nil: it is so. It does not block
	}
	// Unsubscribe ends that; where the topic is zero all that the port has.
	Unsubscribe struct {
		Topic
		As      string
		Port    UpdatePort
		Session uint64 // that subscribed; of no account where the topic is zero
	}
	childReady struct {
		server   string
		instance uint64
		pid      *kernel.PID
	}
	childGone struct {
		server   string
		instance uint64
	}
	// childLost tells of subscriptions that a child has no more although it runs.
	childLost struct {
		server   string
		instance uint64
		uris     []string
	}
	// childRenewed says that a child is there and has forgotten who subscribed.
	childRenewed struct {
		server   string
		instance uint64
	}
	childNotice struct {
		server   string
		instance uint64
		method   string
		params   json.RawMessage
	}
	// subscribedAt is a child's answer to a subscription.
	subscribedAt struct {
		topic  topicAt
		answer *messages.Answer
	}
	renewDue struct{ place }
)

func newNotices(e *Engine) *noticesActor {
	return &noticesActor{e: e, running: map[string][]runningChild{}, topics: map[topicAt]*topic{}, places: map[place]int{}, ports: map[UpdatePort]int{}, clients: map[uint64]int{}, renewal: map[place]*renewal{}}
}

// Subscribe subscribes a port to a resource.
func (e *Engine) Subscribe(s *Subscribe) { e.sys.Send(e.notices, s) }

// Unsubscribe takes a port out of a topic, or of all where that is zero. What
// is on its way may still reach the port.
func (e *Engine) Unsubscribe(u *Unsubscribe) { e.sys.Send(e.notices, u) }

// Receive implements kernel.Actor.
func (a *noticesActor) Receive(ctx *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *childNotice:
		a.onNotice(ctx, m)
	case *childReady:
		at := place{m.server, a.ownerOf(m.server, m.pid)}
		a.running[m.server] = append(a.running[m.server], runningChild{m.instance, m.pid, at.owner})
		a.renewed(at)
		a.changed(ctx, m.server, "") // what the child before it had may have been something else
		a.renew(ctx, at)
	case *childGone:
		a.onGone(ctx, m)
	case *childLost:
		a.onLost(ctx, m)
	case *childRenewed:
		a.lost(ctx, m.server, m.instance)
		for _, list := range []ChildList{ResourceList, PromptList} { // also what is being read, in part from the session before
			a.changed(ctx, m.server, list)
		}
	case *Subscribe:
		a.onSubscribe(ctx, m)
	case *Unsubscribe:
		a.onUnsubscribe(ctx, m)
	case *subscribedAt:
		a.onSubscribed(ctx, m)
	case *renewDue:
		a.onRenewDue(ctx, m)
	case kernel.Stopping:
		for _, r := range a.renewal {
			r.timer.Stop()
		}
		for _, t := range a.topics {
			for _, s := range t.waiting {
				s.answer(ctx, &messages.Answer{Call: s.Call, Err: supervision.ShuttingDown("")})
			}
		}
	}
}

func (a *noticesActor) onNotice(ctx *kernel.Context, m *childNotice) {
	switch m.method {
	case methodUpdated:
		who := a.concerned(m, changedURI(m.params))
		if len(who) == 0 {
			return
		}
		told := &messages.Frame{Params: m.params}
		if scrub := a.e.opts.ScrubFrame; scrub != nil {
			scrub(m.server, told)
		}
		a.updated(ctx, who, told.Params)
	case methodResourcesChanged, methodPromptsChanged:
		list := ResourceList
		if m.method == methodPromptsChanged {
			list = PromptList
		}
		a.changed(ctx, m.server, list)
	}
}

// updated tells those who are subscribed to a resource that has changed, or to one of
// which that is a part, each in the form in which it subscribed, and once.
func (a *noticesActor) updated(ctx *kernel.Context, who []concern, params json.RawMessage) {
	changed := changedURI(params)
	heard := map[subscriber]bool{}
	for _, w := range who {
		for s := range w.topic.who {
			if w.within {
				form, ok := strings.CutSuffix(s.as, w.uri)
				if !ok {
					continue
				}
				s.as = form + changed
			}
			if heard[s] {
				continue
			}
			heard[s] = true
			ctx.Contain(func() { s.port.Updated(s.as, params) })
		}
	}
}

// changedURI is what an update is of.
func changedURI(params json.RawMessage) string {
	var p struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(params, &p) // what names none is of none
	return p.URI
}

// changed tells who lists what servers offer.
func (a *noticesActor) changed(ctx *kernel.Context, server string, list ChildList) {
	if told := a.e.opts.ListChanged; told != nil {
		ctx.Contain(func() { told(server, list) })
	}
}

// answer answers who wanted a subscription; nil: there it is.
func (s *Subscribe) answer(ctx *kernel.Context, failure *messages.Answer) {
	ctx.Contain(func() { s.Reply(failure) })
}

func (a *noticesActor) onSubscribe(ctx *kernel.Context, s *Subscribe) {
	of, who := topicAt{s.Topic, a.owner(s.Server, s.Session)}, subscriber{s.Port, s.As, s.Session}
	t := a.topics[of]
	if t != nil && t.who[who] && t.at != 0 {
		s.answer(ctx, nil)
		return
	}
	if len(s.URI) > maxSubscribedURI || len(s.As) > maxSubscribedURI {
		s.answer(ctx, &messages.Answer{Call: s.Call, Err: &messages.Error{
			Code: messages.CodeValidation, Server: s.Server,
			Message: "the URI has more than " + strconv.Itoa(maxSubscribedURI) + " bytes and cannot be subscribed to; it can be read again instead",
		}})
		return
	}
	if a.total >= maxSubscriptions || a.clients[s.Session] >= maxSubscriptionsOne {
		s.answer(ctx, &messages.Answer{Call: s.Call, Err: &messages.Error{
			Code: messages.CodePoolSaturated, Server: s.Server,
			Message: "there are too many subscriptions already: " + strconv.Itoa(maxSubscriptionsOne) + " of one client and " + strconv.Itoa(maxSubscriptions) + " of all are the most",
			Hint:    "Unsubscribe from resources that are not needed any more.",
		}})
		return
	}
	if t == nil {
		t = a.add(of)
	}
	a.total++
	a.ports[s.Port]++
	a.clients[s.Session]++
	if t.at != 0 {
		t.who[who] = true
		s.answer(ctx, nil)
		return
	}
	t.waiting = append(t.waiting, s)
	if !t.asking {
		a.ask(ctx, of, t)
	}
}

// ask subscribes at the child; any instance of the place will do. That is the host's own
// work: several clients may wait for it, and none where a subscription is made again.
func (a *noticesActor) ask(ctx *kernel.Context, of topicAt, t *topic) {
	t.asking = true
	self, sys := ctx.Self(), ctx.System()
	id, session := a.e.opts.NextCall(), of.owner
	if len(t.waiting) > 0 {
		session = t.waiting[0].Session
	}
	call := &messages.Call{
		Meta: messages.Meta{Session: session}, ID: id, Server: of.Server, Method: methodSubscribe,
		Params: append(appendString([]byte(`{"uri":`), of.URI), '}'), Idempotent: true,
		Reply: answerFunc(func(answer *messages.Answer) { sys.Send(self, &subscribedAt{of, answer}) }),
	}
	a.e.Ask(call)
}

// answerFunc is a function that takes the answer to a call.
type answerFunc func(a *messages.Answer)

// Answer implements messages.ReplyPort.
func (f answerFunc) Answer(a *messages.Answer) { f(a) }

func (a *noticesActor) onSubscribed(ctx *kernel.Context, m *subscribedAt) {
	t := a.topics[m.topic]
	if t == nil {
		return
	}
	t.asking = false
	waiting := t.waiting
	t.waiting = nil
	if m.answer.Result == nil {
		for _, s := range waiting {
			a.less(s.Port, s.Session)
			failure := *m.answer
			failure.Call = s.Call
			s.answer(ctx, &failure)
		}
		a.lostTopic(ctx, m.topic, t)
		return
	}
	t.at = m.answer.Instance
	if c := a.child(m.topic.Server, t.at); c != nil {
		c.owner = m.topic.owner // it may be one that had been everybody's
	}
	for _, s := range waiting {
		if who := (subscriber{s.Port, s.As, s.Session}); t.who[who] {
			a.less(s.Port, s.Session) // it asked twice
		} else {
			t.who[who] = true
		}
	}
	// The port hears of updates from here on, so its request is answered first.
	for _, s := range waiting {
		s.answer(ctx, nil)
	}
	switch {
	case len(t.who) == 0:
		a.drop(ctx, m.topic, t)
	case a.child(m.topic.Server, t.at) == nil, a.misplaced(m.topic, t): // it was lost meanwhile, or its scope changed
		t.at = 0
		a.lostTopic(ctx, m.topic, t)
	default:
		if r := a.renewal[m.topic.place()]; r != nil && r.timer == nil && r.since.IsZero() {
			r.since = time.Now()
		}
	}
}

// less takes a subscription of a port, and of its session, off the count.
func (a *noticesActor) less(port UpdatePort, session uint64) {
	a.total--
	if a.ports[port]--; a.ports[port] <= 0 {
		delete(a.ports, port)
	}
	if a.clients[session]--; a.clients[session] <= 0 {
		delete(a.clients, session)
	}
}

func (a *noticesActor) child(server string, instance uint64) *runningChild {
	running := a.running[server]
	for i := range running {
		if running[i].instance == instance {
			return &running[i]
		}
	}
	return nil
}

// drop ends a topic that nobody wants any more.
func (a *noticesActor) drop(ctx *kernel.Context, of topicAt, t *topic) {
	if t.asking || len(t.waiting) > 0 || len(t.who) > 0 {
		return // the answer to what is out ends it
	}
	a.remove(of)
	if c := a.child(of.Server, t.at); c != nil {
		ctx.Send(c.pid, &unsubscribe{of.URI})
	}
}

func (a *noticesActor) onUnsubscribe(ctx *kernel.Context, m *Unsubscribe) {
	if a.ports[m.Port] == 0 {
		return
	}
	all := m.Topic == Topic{}
	leave := func(of topicAt, t *topic) {
		kept := t.waiting[:0]
		for _, s := range t.waiting {
			if s.Port != m.Port || !all && s.As != m.As {
				kept = append(kept, s)
				continue
			}
			a.less(m.Port, s.Session)
			s.answer(ctx, &messages.Answer{Call: s.Call, Err: &messages.Error{Code: messages.CodeCancelled, Server: of.Server, Message: "the subscription was ended before it was made"}})
		}
		t.waiting = kept
		for s := range t.who {
			if s.port == m.Port && (all || s.as == m.As) {
				delete(t.who, s)
				a.less(m.Port, s.session)
			}
		}
		a.drop(ctx, of, t)
	}
	if !all {
		for _, of := range []topicAt{{m.Topic, 0}, {m.Topic, m.Session}} { // whichever it was then
			if t := a.topics[of]; t != nil {
				leave(of, t)
			}
		}
		return
	}
	for of, t := range a.topics {
		leave(of, t)
	}
}
