package actors

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

const (
	// maxRounds bounds how often one call is repeated with input.
	maxRounds = 10
	// maxInputs bounds the questions of one round.
	maxInputs = 32
)

// inputWanted is what a modern child needs before it goes on with a call, and what
// of it has come.
type inputWanted struct {
	state   json.RawMessage
	answers map[string]json.RawMessage
	left    int
}

var inputRequired = []byte(`"input_required"`)

// needsInput says whether a result of a modern child asks for input.
func needsInput(result json.RawMessage) bool {
	if !bytes.Contains(result, inputRequired) {
		return false
	}
	var r struct {
		Type string `json:"resultType"`
	}
	return json.Unmarshal(result, &r) == nil && r.Type == "input_required"
}

// requestState is the state that a result gives to the caller to bring back; nil:
// it gives none.
func requestState(f *messages.Frame) json.RawMessage {
	if !f.Has.May(messages.MemberRequestState) || !needsInput(f.Result) {
		return nil
	}
	var r struct {
		State json.RawMessage `json:"requestState"`
	}
	_ = json.Unmarshal(f.Result, &r) // what is none is nil
	return r.State
}

// keepState puts the state back into a result that secrets were taken out of: the
// child must get it as it was, and nobody else reads it.
func keepState(f *messages.Frame, state json.RawMessage) {
	if state == nil || bytes.Equal(requestState(f), state) {
		return
	}
	members := map[string]json.RawMessage{}
	if json.Unmarshal(f.Result, &members) != nil {
		return
	}
	members["requestState"] = state
	if whole, err := json.Marshal(members); err == nil {
		f.Result = whole
	}
}

// inputRequests is what a child asks for in a result.
type inputRequests struct {
	Requests questionsByKey  `json:"inputRequests"`
	State    json.RawMessage `json:"requestState"`
}

// questionsByKey are questions of one round: no more of them than show that they are
// too many, since each is many times as large here as it may be in the text.
type questionsByKey map[string]inputQuestion

type inputQuestion struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (q *questionsByKey) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	switch open, err := d.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil // null is none
	case open != json.Delim('{'):
		return errors.New("inputRequests is no object")
	}
	*q = questionsByKey{}
	for d.More() && len(*q) <= maxInputs {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var one inputQuestion
		if err := d.Decode(&one); err != nil {
			return err
		}
		name, _ := key.(string) // that of a member always is one
		(*q)[name] = one
	}
	return nil
}

// onInputNeeded takes a result that asks for input. A caller that takes such a
// result gets it, which is reported; for any other the client is asked, and the
// call is repeated when all of the input is there.
func (c *connection) onInputNeeded(ctx *kernel.Context, p *pending, f *messages.Frame) (passes bool) {
	var r inputRequests
	if err := json.Unmarshal(f.Result, &r); err != nil {
		p.away = true
		c.endInput(ctx, p, c.inputError(p.call, "asked for input in a form that cannot be read: "+err.Error()))
		return false
	}
	if refused := c.refuseInput(ctx, p, &r); refused != nil {
		p.away = true
		c.endInput(ctx, p, refused)
		return false
	}
	if p.call.TakesInput {
		return true
	}
	p.away = true
	p.wanted = &inputWanted{state: r.State, answers: map[string]json.RawMessage{}, left: len(r.Requests)}
	if len(r.Requests) == 0 {
		c.repeat(ctx, p)
		return false
	}
	questions := make([]*messages.Question, 0, len(r.Requests))
	for _, key := range slices.Sorted(maps.Keys(r.Requests)) {
		a := c.newAsk(ctx, p, r.Requests[key].Method, r.Requests[key].Params)
		a.key = key
		questions = append(questions, a.q)
	}
	ctx.Contain(func() { p.call.Client.Ask(p.call.ID, questions) })
	return false
}

// refuseInput is the answer to a call whose child asks for what it cannot have;
// nil: it can.
func (c *connection) refuseInput(ctx *kernel.Context, p *pending, r *inputRequests) *messages.Answer {
	switch {
	case p.round >= maxRounds:
		return c.inputError(p.call, "asked for input more than "+strconv.Itoa(maxRounds)+" times")
	case len(r.Requests) > maxInputs, len(c.asks.open)+len(r.Requests) > maxAsks:
		return c.inputError(p.call, "asked for too much input at once")
	}
	for key, q := range r.Requests {
		code, why := c.mayAsk(p, q.Method, q.Params)
		if code == 0 {
			continue
		}
		if ctx.Tracing() {
			ctx.Event("child-request", c.deps.beginning([]byte(q.Method))+" refused: "+why, 0)
		}
		if required := capability(q.Method, q.Params); required != "" {
			return &messages.Answer{RPCError: missingCapability(why, required)}
		}
		return c.inputError(p.call, "asked for input ("+shortName(key)+") that it cannot have: "+why)
	}
	return nil
}

// capability is what a client must have declared to be asked for that.
func capability(method string, params json.RawMessage) string {
	var q struct {
		Mode  string          `json:"mode"`
		Tools json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(params, &q) // what is not there is not needed
	switch {
	case method == messages.MethodElicit && q.Mode == "url":
		return `{"elicitation":{"url":{}}}`
	case method == messages.MethodElicit:
		return `{"elicitation":{"form":{}}}`
	case method == messages.MethodSample && q.Tools != nil:
		return `{"sampling":{"tools":{}}}`
	case method == messages.MethodSample:
		return `{"sampling":{}}`
	case method == messages.MethodRoots:
		return `{"roots":{}}`
	}
	return ""
}

// missingCapability is the protocol's error for a client that lacks what a request
// needs.
func missingCapability(why, required string) json.RawMessage {
	const code = -32021
	e := rpcError(code, why)
	return append(append(e[:len(e)-1], `,"data":{"requiredCapabilities":`...), required+`}}`...)
}

func (c *connection) inputError(call *messages.Call, what string) *messages.Answer {
	return &messages.Answer{Err: &messages.Error{
		Code: messages.CodeToolExecution, Server: c.spec.Name, Tool: call.Tool, Class: messages.ClassOther,
		Message: strconv.Quote(c.spec.Name) + " " + what + "; the call was not carried out to its end",
		Hint:    "Check what the call may have done before you repeat it.",
	}}
}

// endInput ends a call whose input will not come. The child waits for nothing.
func (c *connection) endInput(ctx *kernel.Context, p *pending, a *messages.Answer) {
	c.leave(p.call.ID)
	defer c.settle(p, a)
	c.over(ctx, p, "the call is over")
	c.handled++
	c.heard()
	c.idleIfDone(ctx)
}

// onInput takes one answer of the client's.
func (c *connection) onInput(ctx *kernel.Context, a *ask, m *messages.QuestionAnswer) {
	p := a.p
	if m.Result == nil {
		c.endInput(ctx, p, &messages.Answer{Err: &messages.Error{
			Code: messages.CodeToolExecution, Server: c.spec.Name, Tool: p.call.Tool,
			Message: strconv.Quote(c.spec.Name) + " needs input, and the client answered " + a.q.Method + " with an error: " + strings.ToValidUTF8(rpcErrorText(m.Error), ""),
			Hint:    "Call again when the user can answer.",
		}})
		return
	}
	p.wanted.answers[a.key] = m.Result
	if p.wanted.left--; p.wanted.left == 0 {
		c.repeat(ctx, p)
	}
}

// repeat gives the call to the child once more, with its input, unless its tool was
// closed while it waited for that.
func (c *connection) repeat(ctx *kernel.Context, p *pending) {
	if err := c.vet(p.call); err != nil {
		begun := *err
		begun.Hint += " The server had begun with the call when it asked for input: check what it may have done."
		c.endInput(ctx, p, &messages.Answer{Err: &begun})
		return
	}
	w := p.wanted
	p.wanted, p.away = nil, false
	p.round++
	p.input = &messages.Input{State: w.state}
	if len(w.answers) > 0 {
		p.input.Responses, _ = json.Marshal(w.answers) // raw values of parsed messages always marshal
	}
	switch err := c.write(p); {
	case errors.Is(err, ErrBacklog):
		c.endInput(ctx, p, c.inputError(p.call, "does not take its input: "+err.Error()))
	case err == nil:
		c.arm(ctx, p.deadline)
	}
	// Any other error says that the link has failed, which it will tell.
}
