package demoserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

const maxAsks = 1024

// clientTools turn to the client: they change what it has listed, or ask it.
var clientTools = []tool{
	{
		name: "add_tool", description: "Adds a tool of the given name at run time and announces the changed list.",
		schema:      `{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":128}},"required":["name"]}`,
		annotations: additive, quick: addTool,
	},
	{
		name: "ask", description: "Sends a request to the client and returns what came back.",
		schema: `{"type":"object","properties":{"method":{"type":"string","enum":["roots/list","elicitation/create","sampling/createMessage","ping"],` +
			`"default":"roots/list"},"ms":{"type":"integer","minimum":1,"maximum":600000,"default":5000}}}`,
		annotations: pure, slow: ask,
	},
}

// questions are the parameters of the requests that a server may send.
var questions = map[string]json.RawMessage{
	"ping":       json.RawMessage(`{}`),
	"roots/list": json.RawMessage(`{}`),
	"elicitation/create": json.RawMessage(`{"mode":"form","message":"What is your favourite colour?",` +
		`"requestedSchema":{"type":"object","properties":{"colour":{"type":"string"}},"required":["colour"]}}`),
	"sampling/createMessage": json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"Say hello."}}],"maxTokens":16}`),
}

func addTool(s *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ Name string }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if a.Name == "" || len(a.Name) > 128 {
		return c.problem("wrong arguments for add_tool: name must have 1 to 128 bytes"), nil
	}
	if len(s.tools.definitions()) >= maxExtraTools {
		return c.problem("there are too many tools already"), nil
	}
	free := s.tools.add(tool{
		name: a.Name, description: "Added at run time.", annotations: pure,
		quick: func(_ *server, c *call) (json.RawMessage, *rpcError) { return c.text("called " + a.Name), nil },
	})
	if !free {
		return c.problem("there is a tool of that name already: " + a.Name), nil
	}
	s.complain(s.listChanged(c.modern))
	return c.text("added " + a.Name), nil
}

// ask returns the client's answer as {"method","result"} or {"method","error"}.
func ask(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	a := struct {
		Method string
		MS     int
	}{Method: "roots/list", MS: 5000}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	params, known := questions[a.Method]
	if !known {
		return c.problem("wrong arguments for ask: unknown method " + a.Method), nil
	}
	if c.modern {
		return c.askAgain(a.Method, params), nil
	}
	answer, err := s.askClient(ctx, a.Method, params, time.Duration(a.MS)*time.Millisecond)
	switch {
	case err != nil:
		return c.problem(err.Error()), nil
	case len(answer.Error) > 0:
		return c.structured(object("method", a.Method, "error", answer.Error)), nil
	}
	return c.structured(object("method", a.Method, "result", answer.Result)), nil
}

// askAgain is the modern way: the first call answers that input is needed, and
// the client repeats it with the input.
func (c *call) askAgain(method string, params json.RawMessage) json.RawMessage {
	const key, state = "question", "demo-state-1"
	var p struct {
		InputResponses map[string]json.RawMessage `json:"inputResponses"`
		RequestState   string                     `json:"requestState"`
	}
	if err := json.Unmarshal(c.params, &p); err != nil {
		return c.problem("tools/call: " + err.Error())
	}
	answer, answered := p.InputResponses[key]
	switch {
	case answered && p.RequestState != state:
		return c.problem(fmt.Sprintf("requestState came back as %q, not as %q", p.RequestState, state))
	case answered:
		return c.structured(object("method", method, "result", answer))
	case method == "ping":
		return c.problem("a modern server cannot ping its client")
	}
	return object("resultType", "input_required",
		"inputRequests", object(key, object("method", method, "params", params)),
		"requestState", state)
}

// askClient sends a request of our own and waits for its answer.
func (s *server) askClient(ctx context.Context, method string, params json.RawMessage, patience time.Duration) (message, error) {
	reply := make(chan message, 1)
	s.mu.Lock()
	if len(s.asked) >= maxAsks {
		s.mu.Unlock()
		return message{}, fmt.Errorf("%d questions are open already", maxAsks)
	}
	s.lastAsk++
	id := fmt.Sprintf("ask-%d", s.lastAsk)
	s.asked[id] = reply
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.asked, id)
		s.mu.Unlock()
	}()
	if err := s.out.request(id, method, params); err != nil {
		return message{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case m := <-reply:
		return m, nil
	case <-ctx.Done():
		return message{}, fmt.Errorf("no answer to %s within %s", method, patience)
	}
}

// answered takes a response to a request of ours.
func (s *server) answered(m message) {
	var id string
	if json.Unmarshal(m.ID, &id) != nil {
		return
	}
	s.mu.Lock()
	reply := s.asked[id]
	delete(s.asked, id)
	s.mu.Unlock()
	if reply != nil {
		reply <- m
	}
}
