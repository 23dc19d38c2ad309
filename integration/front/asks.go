package front

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// maxQuestions bounds the questions that one client has not answered.
const maxQuestions = 256

// questionPrefix begins the ids of our requests to a client. A part that each host
// chooses by chance and a number follow: a client whose host has ended may still
// answer, and that must not be taken for an answer to what the next host asks.
const questionPrefix = "metamcp-"

// newMark returns what the ids of one host's questions begin with.
func newMark() string {
	const length = 8 // 40 bits
	return questionPrefix + strings.ToLower(rand.Text()[:length]) + "-"
}

// questions are what one client of the older protocol was asked and has not
// answered. It is safe for use from any goroutine.
type questions struct {
	mu     sync.Mutex
	open   map[string]*messages.Question // by the id of our request, as idKey has it
	closed bool                          // nothing can be answered any more
}

// add reports why a question cannot be asked; "": it is open.
func (t *questions) add(key string, q *messages.Question) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return "the client's input has ended: it cannot answer"
	case len(t.open) >= maxQuestions:
		return strconv.Itoa(maxQuestions) + " questions are open at this client already"
	}
	if t.open == nil {
		t.open = map[string]*messages.Question{}
	}
	t.open[key] = q
	return ""
}

// take closes a question; nil: it is not open.
func (t *questions) take(key string) *messages.Question {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.open[key]
	delete(t.open, key)
	return q
}

// find returns an open question, which stays open; nil: it is not open.
func (t *questions) find(key string) *messages.Question {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[key]
}

// end answers all that is open: the client will not.
func (t *questions) end(why string) {
	t.mu.Lock()
	open := t.open
	t.open, t.closed = nil, true
	t.mu.Unlock()
	for _, q := range open {
		noAnswer(q, why)
	}
}

// noAnswer tells who asked that there is no answer.
func noAnswer(q *messages.Question, why string) {
	q.Reply.Answered(&messages.QuestionAnswer{Question: q.ID, Error: errorMember(codeTooMany, why)})
}

func errorMember(code int, message string) json.RawMessage {
	e := strconv.AppendInt([]byte(`{"code":`), int64(code), 10)
	e = jsonrpc.AppendQuote(append(e, `,"message":`...), message)
	return append(e, '}')
}

// questionID is the id of our request for a question, as JSON.
func (p *Parked) questionID(q *messages.Question) []byte {
	id := append([]byte{'"'}, p.mark...)
	return append(strconv.AppendUint(id, q.ID, 10), '"')
}

// ask puts questions to the client for a request of it: as requests of ours to a
// client of the older protocol, as the result of that request to one of the newer.
func (c *connection) ask(e *Entry, list []*messages.Question) {
	if e.Era == messages.EraModern {
		c.park(e, list)
		return
	}
	c.mu.Lock()
	live := c.table.Live(e)
	c.mu.Unlock()
	st, overHTTP := e.out.(*stream)
	for _, q := range list {
		switch {
		case !live:
			noAnswer(q, "the call is over")
			continue
		case overHTTP && st.answered:
			noAnswer(q, "the client takes no event stream, so it cannot be asked")
			continue
		}
		id := c.opts.Parked.questionID(q)
		key := string(id)
		if why := c.questions.add(key, q); why != "" {
			noAnswer(q, why)
			continue
		}
		head := append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"method":`...)
		head = jsonrpc.AppendQuote(head, q.Method)
		write := e.out.Write
		if overHTTP {
			write = func(parts ...[]byte) error {
				return st.Ask(func() bool { return c.questions.find(key) == q }, parts...)
			}
		}
		var err error
		if q.Params != nil {
			err = write(append(head, `,"params":`...), flat(withToken(withElicitationID(q, id), id)), []byte{'}'})
		} else {
			err = write(append(head, '}'))
		}
		if err != nil && c.questions.take(key) != nil {
			noAnswer(q, "the client cannot be reached: "+err.Error())
		}
	}
}

// withElicitationID returns the params of a question for a client of the older
// protocol. There an elicitation by URL has an id; the newer one has none, so that a
// server of it gives none, and the one of the request takes its place. All other bytes
// stay.
func withElicitationID(q *messages.Question, id []byte) json.RawMessage {
	if q.Method != messages.MethodElicit || jsonrpc.Get(q.Params, memberElicitationID) != nil {
		return q.Params
	}
	if mode, err := jsonrpc.Unquote(jsonrpc.Get(q.Params, "mode")); err != nil || mode != "url" {
		return q.Params
	}
	own := append([]byte(`{"`+memberElicitationID+`":`), id...)
	return append(append(own, ','), membersOf(q.Params)...) // mode is one of them
}

const memberElicitationID = "elicitationId"

// tokenIn finds the progress token in the params of a server's request.
func tokenIn(params []byte) (start, end int, ok bool) {
	at, to, ok := jsonrpc.Index(params, "_meta")
	if !ok {
		return 0, 0, false
	}
	start, end, ok = jsonrpc.Index(params[at:to], memberToken)
	return at + start, at + end, ok && isToken(params[at+start:at+end])
}

const memberToken = "progressToken"

// withToken returns params in which the progress token, where the server has given
// one, is replaced by that of our request: servers count theirs, each for itself, and a
// client has several of them. All other bytes stay.
func withToken(params json.RawMessage, token []byte) json.RawMessage {
	start, end, ok := tokenIn(params)
	if !ok {
		return params
	}
	return slices.Concat(params[:start], token, params[end:])
}

// progressed passes on how far the client says that it is with a request of ours: to
// who asked, under the token that it gave. It is dropped where nobody asked for it.
func (c *connection) progressed(in *incoming) {
	start, end, ok := jsonrpc.Index(in.Params, memberToken)
	if !ok {
		return
	}
	q := c.questions.find(idKey(in.Params[start:end]))
	if q == nil {
		return
	}
	from, to, asked := tokenIn(q.Params)
	if port, hears := q.Reply.(messages.ProgressedPort); asked && hears {
		port.Progressed(&messages.QuestionProgress{
			Question: q.ID, Params: slices.Concat(in.Params[:start], q.Params[from:to], in.Params[end:]),
		})
	}
}

// withdraw tells the client that nobody waits for its answers.
func (c *connection) withdraw(e *Entry, list []*messages.Question, reason string) {
	if e.Era == messages.EraModern {
		c.unpark(e, list)
		return
	}
	for _, q := range list {
		id := c.opts.Parked.questionID(q)
		if c.questions.take(string(id)) == nil {
			continue
		}
		line := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
		line = append(jsonrpc.AppendQuote(append(line, `,"reason":`...), reason), "}}"...)
		if e.out.Write(line) != nil {
			_ = c.out.Write(line) // the session ends when the output fails
		}
	}
}

// answered takes the client's answer to a request of ours. One that nobody waits
// for is dropped.
func (c *connection) answered(in *incoming) {
	q := c.questions.take(idKey(in.ID))
	if q == nil {
		c.opts.Log.Debug("the client answered a request that nobody waits for", "session", c.opts.Session)
		return
	}
	a := &messages.QuestionAnswer{Question: q.ID}
	switch {
	case len(in.Result) > 0 && in.Result[0] == '{':
		a.Result = in.Result
	case isError(in.Error):
		a.Error = in.Error
	default:
		a.Error = errorMember(codeInternal, "the client's answer is neither a result object nor a proper error")
	}
	q.Reply.Answered(a)
}

func isError(raw json.RawMessage) bool {
	var e struct {
		Code    *int64  `json:"code"`
		Message *string `json:"message"`
	}
	return len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &e) == nil && e.Code != nil && e.Message != nil
}

// methodElicited may come after the request that it belongs to.
const methodElicited = "notifications/elicitation/complete"

// notify passes on a notification of a server that belongs to a request: a line of its
// log, of which a client that does not read gets none, or the end of an elicitation.
func (c *connection) notify(e *Entry, method string, params json.RawMessage) {
	out, live := c.whereTo(e)
	switch {
	case method == methodElicited && e.Era == messages.EraModern:
		return // it has no such notification
	case method == methodElicited:
		out = c.out
	case !live || c.peer.Full():
		return
	}
	withLine(func(dst []byte) []byte {
		dst = append(appendNotification(dst, method), `,"params":`...)
		dst = append(append(dst, flat(params)...), '}')
		_ = out.Write(dst) // the session ends when the output fails
		return dst
	})
}

// whereTo is the way out for what belongs to a request that is in flight, or to the
// one that took its work over.
func (c *connection) whereTo(e *Entry) (out sink, live bool) {
	c.mu.Lock()
	live = c.table.Live(e)
	c.mu.Unlock()
	if live {
		return e.out, true
	}
	if now := c.heir(e); now != nil {
		return now.out, true
	}
	return nil, false
}

// progress is where the progress of a request goes, and under which token. A client
// that does not read gets none.
func (c *connection) progress(e *Entry) (out sink, token json.RawMessage, live bool) {
	if c.peer.Full() {
		return nil, nil, false
	}
	c.mu.Lock()
	live = c.table.Live(e)
	c.mu.Unlock()
	if live {
		return e.out, e.Token, true
	}
	if now := c.heir(e); now != nil && now.Token != nil {
		return now.out, now.Token, true
	}
	return nil, nil, false
}

// abilities is what a client said of itself when it greeted.
type abilities struct {
	can   atomic.Pointer[messages.ClientCan]
	level atomic.Uint32 // a messages.LogLevel; 0: it asked for none
}

func (a *abilities) greeted(params json.RawMessage) {
	can := parseCan(jsonrpc.Get(params, "capabilities"))
	a.can.Store(&can)
}

// of returns what can be asked of the client of a request, and what it wants of
// the log.
func (a *abilities) of(in *incoming, era messages.Era) (can messages.ClientCan, log messages.LogLevel) {
	if era == messages.EraModern {
		if word, err := jsonrpc.Unquote(in.slots[slotLogLevel]); err == nil {
			log = messages.ParseLogLevel(word)
		}
		if raw := in.slots[slotCapabilities]; len(raw) > len("{}") {
			can = parseCan(raw)
		}
		return can, log
	}
	if known := a.can.Load(); known != nil {
		can = *known
	}
	if log = messages.LogLevel(a.level.Load()); log == messages.LogNone {
		log = messages.LogAny
	}
	return can, log
}

// parseCan reads the capabilities of a client. What is not understood is not there.
func parseCan(raw []byte) messages.ClientCan {
	var caps struct {
		Elicitation *struct {
			Form json.RawMessage `json:"form"`
			URL  json.RawMessage `json:"url"`
		} `json:"elicitation"`
		Sampling *struct {
			Tools   json.RawMessage `json:"tools"`
			Context json.RawMessage `json:"context"`
		} `json:"sampling"`
		Roots      *struct{}                  `json:"roots"`
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &caps) != nil {
		return messages.ClientCan{}
	}
	there := func(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }
	can := messages.ClientCan{Roots: caps.Roots != nil, Tasks: there(caps.Extensions[messages.ExtensionTasks])}
	if e := caps.Elicitation; e != nil {
		can.URL = there(e.URL)
		can.Form = there(e.Form) || !can.URL // an empty object means forms
	}
	if s := caps.Sampling; s != nil {
		can.Sampling, can.SamplingTools, can.SamplingContext = true, there(s.Tools), there(s.Context)
	}
	return can
}

// Ask implements messages.ClientPort.
func (p *pending) Ask(_ uint64, list []*messages.Question) { p.c.ask(&p.Entry, list) }

// Withdraw implements messages.ClientPort.
func (p *pending) Withdraw(_ uint64, list []*messages.Question, reason string) {
	p.c.withdraw(&p.Entry, list, reason)
}

// Notify implements messages.ClientPort.
func (p *pending) Notify(_ uint64, method string, params json.RawMessage) {
	p.c.notify(&p.Entry, method, params)
}

// Ask implements messages.ClientPort.
func (c *Caller) Ask(_ uint64, list []*messages.Question) { c.c.ask(c.e, list) }

// Withdraw implements messages.ClientPort.
func (c *Caller) Withdraw(_ uint64, list []*messages.Question, reason string) {
	c.c.withdraw(c.e, list, reason)
}

// Notify implements messages.ClientPort.
func (c *Caller) Notify(_ uint64, method string, params json.RawMessage) {
	c.c.notify(c.e, method, params)
}

// Client reaches the client for calls that the handler makes.
func (c *Caller) Client() messages.ClientPort {
	if c.c.opts.Via != nil {
		return c.c.opts.Via(c, c.e.Call)
	}
	return c
}

// Can is what the client can be asked for.
func (c *Caller) Can() messages.ClientCan { return c.can }

// Log is what the client wants of the logs of servers.
func (c *Caller) Log() messages.LogLevel { return c.log }

// Shared says that the session is one of several clients.
func (c *Caller) Shared() bool { return c.c.anyID }
