package metamcp

import (
	"encoding/json"

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
// session until none of the requests for it can have made it.
type subscription struct {
	topic actors.Topic
	asked int  // requests without an answer
	there bool // one of them was granted
}

// subscribe answers resources/subscribe.
func (p *passed) subscribe(a *front.Ask) {
	topic, err := p.route(stringOf(a.Params, "uri"))
	if err != nil {
		p.fail(a, err)
		return
	}
	p.begin(a.Call, stringOf(a.Params, "uri"), topic, a.Peer, func(failure *messages.Answer) {
		if failure == nil {
			failure = &messages.Answer{Result: json.RawMessage(`{}`)}
		}
		own := *failure
		own.Call, own.Server = a.Call, ""
		a.Reply.Answer(&own)
	})
}

// begin subscribes to a resource, and remembers it for the end of the session.
func (p *passed) begin(call uint64, uri string, topic actors.Topic, to front.Updates, reply func(failure *messages.Answer)) {
	of := topicOf{to, uri}
	p.mu.Lock()
	over := p.topics == nil
	own := p.topics[of]
	if !over {
		if own == nil {
			own = &subscription{}
			p.topics[of] = own
		}
		own.topic = topic
		own.asked++
	}
	p.mu.Unlock()
	if over {
		reply(&messages.Answer{Call: call, Err: errEnding})
		return
	}
	p.x.e.core.Subscribe(&actors.Subscribe{
		Topic: topic, As: uri, Port: to, Call: call, Session: p.session.ID(),
		Reply: func(failure *messages.Answer) {
			p.mu.Lock()
			own.asked--
			own.there = own.there || failure == nil
			if !own.there && own.asked == 0 && p.topics[of] == own {
				delete(p.topics, of)
			}
			p.mu.Unlock()
			reply(failure)
		},
	})
}

// unsubscribe answers resources/unsubscribe. Who is not subscribed is not told
// so: that is what it wanted.
func (p *passed) unsubscribe(a *front.Ask) {
	of := topicOf{a.Peer, stringOf(a.Params, "uri")}
	p.mu.Lock()
	own := p.topics[of]
	delete(p.topics, of)
	p.mu.Unlock()
	if own != nil {
		p.x.e.core.Unsubscribe(&actors.Unsubscribe{Topic: own.topic, As: of.uri, Port: a.Peer, Session: p.session.ID()})
	}
	p.result(a, json.RawMessage(`{}`), nil)
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
	p.mu.Lock()
	for of := range p.topics {
		if of.to == to {
			delete(p.topics, of)
		}
	}
	p.mu.Unlock()
	p.x.e.core.Unsubscribe(&actors.Unsubscribe{Port: to})
}
