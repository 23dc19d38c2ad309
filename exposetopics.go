package metamcp

import (
	"encoding/json"
	"maps"
	"sync/atomic"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

// topicOf is a subscription as its client knows it.
type topicOf struct {
	to  front.Updates
	uri string
}

// subscription is one that is there, or is asked for. It is kept for the end of the
// session until none of the requests for it can have made it; one that is granted when
// it is not kept any more is given back.
type subscription struct {
	topic  actors.Topic
	asked  int  // requests without an answer
	there  bool // one of them was granted
	wanted bool // one of those was not cancelled
}

var errUnwanted = &Error{Code: messages.CodeCancelled, Message: "the subscription was ended before it was made"}

// note takes notice of a request in the order in which the client sent them: each is
// worked on by a goroutine of its own, which calls dispatch.
func (p *passed) note(a *front.Ask) {
	if a.Method != methodSubscribe && a.Method != methodUnsubscribe {
		return
	}
	of := topicOf{a.Peer, stringOf(a.Params, "uri")}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Method == methodSubscribe {
		p.routing[a.Call] = of
	} else {
		maps.DeleteFunc(p.routing, func(_ uint64, other topicOf) bool { return other == of })
		p.end(of)
	}
}

// subscribe answers resources/subscribe.
func (p *passed) subscribe(a *front.Ask) {
	of := topicOf{a.Peer, stringOf(a.Params, "uri")}
	topic, err := p.route(of.uri)
	own, err := p.routed(a, of, topic, err)
	if err != nil {
		p.fail(a, err)
		return
	}
	p.order(a.Call, of, own, a.Cancelled, func(failure *messages.Answer) {
		if failure == nil {
			failure = &messages.Answer{Result: json.RawMessage(`{}`)}
		}
		own := *failure
		own.Call, own.Server = a.Call, ""
		a.Reply.Answer(&own)
	})
}

// routed is want for a request whose server is found, or not, unless its client has
// given it up meanwhile.
func (p *passed) routed(a *front.Ask, of topicOf, topic actors.Topic, err *Error) (*subscription, *Error) {
	defer p.dispatch()
	p.mu.Lock()
	defer p.mu.Unlock()
	_, asked := p.routing[a.Call]
	delete(p.routing, a.Call)
	switch {
	case err != nil:
		return nil, err
	case !asked, isSet(a.Cancelled):
		return nil, errUnwanted
	case p.topics == nil:
		return nil, errEnding
	}
	return p.remember(of, topic), nil
}

func isSet(flag *atomic.Bool) bool { return flag != nil && flag.Load() }

// begin subscribes to a resource, and remembers it for the end of the session.
func (p *passed) begin(call uint64, uri string, topic actors.Topic, to front.Updates, reply func(failure *messages.Answer)) {
	of := topicOf{to, uri}
	own := p.want(of, topic)
	if own == nil {
		reply(&messages.Answer{Call: call, Err: errEnding})
		return
	}
	p.order(call, of, own, nil, reply)
}

// want remembers that a request for a subscription is made; nil: none may begin any
// more.
func (p *passed) want(of topicOf, topic actors.Topic) *subscription {
	defer p.dispatch()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics == nil {
		return nil
	}
	return p.remember(of, topic)
}

// remember is want with mu held, and before the end. A client knows its subscriptions by
// URI, so it has one of each: where the URI has become another server's, that at the
// server before ends. Who calls it calls dispatch.
func (p *passed) remember(of topicOf, topic actors.Topic) *subscription {
	own := p.topics[of]
	if own != nil && own.topic != topic {
		p.leave(of, own)
		own = nil
	}
	if own == nil {
		own = &subscription{topic: topic}
		p.topics[of] = own
	}
	own.asked++
	return own
}

// order makes the request that is remembered. cancelled is set where its client has
// given it up, and not any more once the reply is there; nil: that is told otherwise.
func (p *passed) order(call uint64, of topicOf, own *subscription, cancelled *atomic.Bool, reply func(failure *messages.Answer)) {
	m := &actors.Subscribe{
		Topic: own.topic, As: of.uri, Port: of.to, Call: call, Session: p.session.ID(),
		Reply: func(failure *messages.Answer) {
			reply(failure) // from here on it is known whether its client has the answer
			p.answered(of, own, failure == nil, isSet(cancelled))
		},
	}
	p.mu.Lock()
	p.post(func() { p.x.e.core.Subscribe(m) })
	p.mu.Unlock()
	p.dispatch()
}

// post has something sent by the next dispatch, after what was posted before. mu is held.
func (p *passed) post(send func()) { p.posted = append(p.posted, send) }

// dispatch sends what was posted, unless that is done already: on another goroutine, or
// further up on this one, on which whoever gets a message may run and come back here. So
// nothing is sent with mu held.
func (p *passed) dispatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sending {
		return
	}
	p.sending = true
	for len(p.posted) > 0 {
		send := p.posted[0]
		p.posted = p.posted[1:]
		p.mu.Unlock()
		send()
		p.mu.Lock()
	}
	p.posted, p.sending = nil, false
}

// answered takes notice of the answer to a request. What was granted to one that its
// client had cancelled ends, unless another request for it is there.
func (p *passed) answered(of topicOf, own *subscription, granted, cancelled bool) {
	defer p.dispatch()
	p.mu.Lock()
	defer p.mu.Unlock()
	own.asked--
	kept := p.topics[of]
	switch {
	case granted && kept != nil && kept.topic == own.topic: // its own, or one made since of the same
		kept.there = true
		kept.wanted = kept.wanted || !cancelled
	case granted:
		p.leave(of, own)
	}
	if kept == nil || kept.wanted || kept.asked > 0 {
		return
	}
	delete(p.topics, of)
	if kept.there {
		p.leave(of, kept)
	}
}

// leave ends a subscription with the next dispatch. It is called with mu held: who is
// remembered later asks later, so this does not end what a client wants anew.
func (p *passed) leave(of topicOf, own *subscription) {
	m := &actors.Unsubscribe{Topic: own.topic, As: of.uri, Port: of.to, Session: p.session.ID()}
	p.post(func() { p.x.e.core.Unsubscribe(m) })
}

// unsubscribe answers resources/unsubscribe, of which note has taken notice. Who is not
// subscribed is not told so: that is what it wanted.
func (p *passed) unsubscribe(a *front.Ask) {
	p.dispatch()
	p.result(a, json.RawMessage(`{}`), nil)
}

// end ends the subscription that is kept, if there is one, with the next dispatch. mu is
// held.
func (p *passed) end(of topicOf) {
	if own := p.topics[of]; own != nil {
		delete(p.topics, of)
		p.leave(of, own)
	}
}

// Subscribe implements front.Passed.
func (p *passed) Subscribe(call uint64, uri string, to front.Updates, done func(err *Error)) {
	p.mu.Lock()
	over := p.topics == nil || p.ctx.Err() != nil
	if !over {
		p.work.Add(1)
	}
	p.mu.Unlock()
	if over {
		done(errEnding)
		return
	}
	go func() {
		defer p.work.Done()
		topic, err := p.route(uri)
		if err != nil {
			done(err)
			return
		}
		p.begin(call, uri, topic, to, func(failure *messages.Answer) {
			switch {
			case failure == nil:
				done(nil)
			case failure.Err != nil:
				done(failure.Err)
			default:
				done(&Error{Code: messages.CodeResourceNotFound, Server: topic.Server, Message: "the server refused the subscription: " + stringOf(failure.RPCError, "message")})
			}
		})
	}()
}

// Unsubscribe implements front.Passed.
func (p *passed) Unsubscribe(to front.Updates) {
	defer p.dispatch()
	p.mu.Lock()
	defer p.mu.Unlock()
	for of := range p.topics {
		if of.to == to {
			delete(p.topics, of)
		}
	}
	p.leaveAll(to)
}

// leaveAll is leave for all that updates go to.
func (p *passed) leaveAll(to front.Updates) {
	p.post(func() { p.x.e.core.Unsubscribe(&actors.Unsubscribe{Port: to}) })
}
