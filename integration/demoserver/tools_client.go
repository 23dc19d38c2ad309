package demoserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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
	{
		name: "elicit", description: "Asks the user by way of the client, by form or by URL, and returns what came back.",
		schema:      `{"type":"object","properties":{"message":{"type":"string"},"mode":{"enum":["form","url"],"default":"form"},` + asking + `}}`,
		annotations: pure, slow: elicit,
	},
	{
		name: "sample", description: "Asks the client's model and returns what came back.",
		schema:      `{"type":"object","properties":{"text":{"type":"string"},"tools":{"type":"boolean"},` + asking + `}}`,
		annotations: pure, slow: sample,
	},
	{
		name: "roots", description: "Asks the client for its folders and returns what came back.",
		schema: `{"type":"object","properties":{` + asking + `}}`, annotations: pure, slow: roots,
	},
	{
		name: "log", description: "Sends the client lines of the server's log while the call lasts, and says which level is asked for.",
		schema:      `{"type":"object","properties":{"level":{"type":"string","default":"info"},"text":{"type":"string"},"count":{"type":"integer","minimum":0,"maximum":100000,"default":1}}}`,
		annotations: pure, quick: logLines,
	},
	{
		name: "send", description: "Writes raw lines to the client, right or wrong, before its answer or after it.",
		schema:      `{"type":"object","properties":{"lines":{"type":"array","items":{"type":"string"}},"count":{"type":"integer","minimum":1,"maximum":100000,"default":1},"ms":{"type":"integer","minimum":0,"maximum":60000,"default":0},"after":{"type":"boolean","default":false}},"required":["lines"]}`,
		annotations: pure, slow: sendLines,
	},
}

// sendLines writes what a well-behaved server would not: raw lines, at once or after
// the answer. What %d stands for is the number of the repetition.
func sendLines(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	a := struct {
		Lines     []string
		Count, MS int
		After     bool
	}{Count: 1}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	write := func() {
		for i := range min(a.Count, maxExtraTools) {
			for _, line := range a.Lines {
				s.complain(s.out.line([]byte(strings.ReplaceAll(line, "%d", strconv.Itoa(i)))))
			}
		}
	}
	if a.After {
		if err := s.out.result(c.id, c.text("now")); err != nil {
			return nil, &rpcError{Code: codeBusy, Message: err.Error()}
		}
		write()
		return nil, nil
	}
	write()
	select {
	case <-time.After(time.Duration(a.MS) * time.Millisecond):
	case <-ctx.Done():
	}
	return c.text("sent"), nil
}

// asking is what the tools that ask have in common.
const asking = `"rounds":{"type":"integer","minimum":1,"maximum":10000,"default":1},"ms":{"type":"integer","minimum":1,"maximum":600000,"default":60000},"delay":{"type":"integer","minimum":0,"maximum":60000,"default":0}`

// question is the arguments of the tools that ask.
type question struct {
	Message, Mode, Text string
	Tools               bool
	Rounds, MS, Delay   int
}

func elicit(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	return s.question(ctx, c, "elicitation/create", func(q question, round int) json.RawMessage {
		if q.Mode == "url" {
			pairs := []any{"mode", "url", "message", q.Message, "url", "https://example.com/" + strconv.Itoa(round)}
			if !c.modern { // that protocol has no ids for them
				pairs = append(pairs, "elicitationId", "e-"+q.Message+"-"+strconv.Itoa(round))
			}
			return object(pairs...)
		}
		return object("mode", "form", "message", q.Message, "requestedSchema",
			json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`))
	})
}

func sample(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	return s.question(ctx, c, "sampling/createMessage", func(q question, _ int) json.RawMessage {
		message := object("role", "user", "content", object("type", "text", "text", q.Text))
		pairs := []any{"messages", array([]json.RawMessage{message}), "maxTokens", 16}
		if q.Tools {
			pairs = append(pairs, "tools", json.RawMessage(`[{"name":"t","inputSchema":{"type":"object"}}]`))
		}
		return object(pairs...)
	})
}

func roots(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	return s.question(ctx, c, "roots/list", func(question, int) json.RawMessage { return json.RawMessage("{}") })
}

// question asks the client, once in each round, and returns all that came back as
// {"answers":[…]}; an error ends it.
func (s *server) question(ctx context.Context, c *call, method string, params func(q question, round int) json.RawMessage) (json.RawMessage, *rpcError) {
	q := question{Rounds: 1, MS: 60_000}
	if p := c.read(&q); p != "" {
		return c.problem(p), nil
	}
	if c.modern {
		return c.questionAgain(q, method, params), nil
	}
	select {
	case <-time.After(time.Duration(q.Delay) * time.Millisecond):
	case <-ctx.Done():
		return nil, &rpcError{Code: codeBusy, Message: "cancelled"}
	}
	var answers []json.RawMessage
	for round := range q.Rounds {
		answer, err := s.askClient(ctx, method, params(q, round), time.Duration(q.MS)*time.Millisecond)
		switch {
		case err != nil:
			return c.problem(err.Error()), nil
		case len(answer.Error) > 0:
			return c.structured(object("method", method, "error", answer.Error)), nil
		}
		answers = append(answers, answer.Result)
		if q.Mode == "url" {
			s.complain(s.out.notify("notifications/elicitation/complete", object("elicitationId", "e-"+q.Message+"-"+strconv.Itoa(round))))
		}
	}
	return c.structured(object("method", method, "answers", array(answers))), nil
}

// questionAgain is the modern way: the state holds the answers so far.
func (c *call) questionAgain(q question, method string, params func(q question, round int) json.RawMessage) json.RawMessage {
	var p struct {
		InputResponses map[string]json.RawMessage `json:"inputResponses"`
		RequestState   string                     `json:"requestState"`
	}
	var answers []json.RawMessage
	if err := json.Unmarshal(c.params, &p); err != nil {
		return c.problem("tools/call: " + err.Error())
	}
	if p.RequestState != "" {
		if err := json.Unmarshal([]byte(p.RequestState), &answers); err != nil {
			return c.problem(fmt.Sprintf("requestState came back as %q: %v", p.RequestState, err))
		}
	}
	key := "question " + strconv.Itoa(len(answers))
	if answer, answered := p.InputResponses[key]; answered {
		answers = append(answers, answer)
	}
	if len(answers) >= q.Rounds {
		return c.structured(object("method", method, "answers", array(answers)))
	}
	key = "question " + strconv.Itoa(len(answers))
	return object("resultType", "input_required",
		"inputRequests", object(key, object("method", method, "params", params(q, len(answers)))),
		"requestState", string(array(answers)))
}

// logLines writes lines of the log: a modern server only where the call asks for
// them.
func logLines(s *server, c *call) (json.RawMessage, *rpcError) {
	a := struct {
		Level, Text string
		Count       int
	}{Level: "info", Count: 1}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	level := s.level
	if c.modern {
		level = requestMeta(c.params).LogLevel
	}
	if !c.modern || level != "" {
		for i := range a.Count {
			s.complain(s.out.notify("notifications/message", object("level", a.Level, "logger", "demo", "data", a.Text+" "+strconv.Itoa(i))))
		}
	}
	return c.text("level " + level), nil
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
