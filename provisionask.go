package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// maxVariable is the longest value of a variable that is taken from a form.
const maxVariable = 4 << 10

// provisionFor is provision for a client. Where values are missing, its user is asked
// for them once: by form where none of them is a secret, else on a page, since secrets
// never pass a client. Where the client can do neither, or the user gives none, the
// answer says how the user gives them.
func (e *Engine) provisionFor(ctx context.Context, caller *front.Caller, ask ProvisionRequest) (a *ProvisionAnswer, err error) {
	a, err = e.provision(ctx, ask, messages.Meta{Trace: caller.Call(), Session: caller.Session()}, aClient,
		e.telemetry.BeginProvisionRequest(caller.TraceContext(), caller.Transport(), caller.Call()))
	if err != nil {
		return nil, err
	}
	env, asked := e.askVariables(ctx, caller, a)
	given := &givenValues{env: env}
	if !asked && len(a.missing) > 0 {
		given = e.askSecrets(ctx, caller, a, ask.Progress)
	}
	if given == nil || given.env == nil {
		return a, nil
	}
	// The user gave them to what was shown.
	ask.Env, ask.ChoiceVersion = given.env, a.Version
	again := front.NextCall()
	defer func() {
		e.forgetGiven(ctx, given, err == nil && a.Decision == DecisionProvisioned)
	}()
	return e.provision(ctx, ask, messages.Meta{Trace: again, Session: caller.Session()}, aClient,
		e.telemetry.BeginProvisionRequest(caller.TraceContext(), caller.Transport(), again))
}

// askVariables asks by form for the variables that are missing; nil: it has them not.
// asked tells a user who gave none from one who was not asked. The answer says where the
// user was not done in time.
func (e *Engine) askVariables(ctx context.Context, caller *front.Caller, a *ProvisionAnswer) (env map[string]string, asked bool) {
	if len(a.missing) == 0 || !caller.Can().Form || slices.ContainsFunc(a.missing, looksSecret) {
		return nil, false
	}
	answer := make(questionPort, 1)
	q := &messages.Question{ID: e.core.NextQuestion(), Method: messages.MethodElicit, Params: variableForm(a), Reply: answer}
	got, err := askForm(ctx, caller.Client(), caller.Call(), q, answer)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		a.Notes = append(a.Notes, notDone(actors.AskPatience))
		return nil, true
	case err != nil:
		return nil, true
	}
	return formValues(got, a.missing), got.Error == nil
}

// askForm puts a form to the client, and waits for it no longer than a client has for
// an answer: one that has vanished would keep its session for good. The error is that of
// the context.
func askForm(ctx context.Context, client messages.ClientPort, call uint64, q *messages.Question, answer <-chan *messages.QuestionAnswer) (*messages.QuestionAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, actors.AskPatience)
	defer cancel()
	client.Ask(call, []*messages.Question{q})
	select {
	case got := <-answer:
		return got, nil
	case <-ctx.Done():
		client.Withdraw(call, []*messages.Question{q}, "nobody waits for it any more: "+ctx.Err().Error())
		return nil, ctx.Err()
	}
}

// notDone says that the user of a client has let the time go by.
func notDone(limit time.Duration) string {
	return fmt.Sprintf("The user was asked in the client, and was not done within %v.", limit)
}

// questionPort takes the answer to one question, or nil where it was withdrawn before
// there was one. It holds one.
type questionPort chan *messages.QuestionAnswer

// Answered implements messages.QuestionPort.
func (p questionPort) Answered(a *messages.QuestionAnswer) { p.take(a) }

// Withdrawn implements messages.WithdrawnPort.
func (p questionPort) Withdrawn() { p.take(nil) }

func (p questionPort) take(a *messages.QuestionAnswer) {
	select {
	case p <- a:
	default: // what came first counts
	}
}

// looksSecret says whether a variable must not be asked for by form: its publisher
// says so, or its name does.
func looksSecret(v ProvisionVariable) bool {
	name := strings.ToUpper(v.Name)
	return v.Secret || scrub.NameSays(v.Name) || slices.ContainsFunc([]string{"TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL", "AUTH"}, func(word string) bool {
		return strings.Contains(name, word)
	})
}

// variableForm is the form for the variables. Texts of a description are cut, and said
// to be its own: anybody may have written it.
func variableForm(a *ProvisionAnswer) json.RawMessage {
	const longest = 200
	fields, required := map[string]any{}, make([]string, 0, len(a.missing))
	for _, v := range a.missing {
		field := map[string]any{"type": "string", "title": v.Name, "maxLength": maxVariable}
		if v.Description != "" {
			field["description"] = "Its description says: " + messages.Cut(v.Description, longest)
		}
		if len(v.Choices) > 0 {
			field["enum"] = v.Choices
		}
		fields[v.Name] = field
		required = append(required, v.Name)
	}
	params, _ := json.Marshal(map[string]any{ // strings, maps and slices always marshal
		"mode":    "form",
		"message": "metamcp installs " + strings.TrimSpace(a.Package+" "+a.Version) + ", which needs settings that nobody has made. Do not enter secrets here.",
		"requestedSchema": map[string]any{
			"type": "object", "properties": fields, "required": required,
		},
	})
	return params
}

// formValues reads what the user entered; nil: it is not what was asked for.
func formValues(a *messages.QuestionAnswer, missing []ProvisionVariable) map[string]string {
	var r struct {
		Action  string            `json:"action"`
		Content map[string]string `json:"content"`
	}
	if a.Result == nil || json.Unmarshal(a.Result, &r) != nil || r.Action != "accept" {
		return nil
	}
	env := map[string]string{}
	for _, v := range missing {
		value, ok := r.Content[v.Name]
		if !ok || !plainValue(&v, value) {
			return nil
		}
		env[v.Name] = value
	}
	return env
}
