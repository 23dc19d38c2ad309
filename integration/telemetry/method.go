package telemetry

import (
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"

	"github.com/metamcp/metamcp/messages"
)

// methodGet is the method whose spans name a prompt.
const methodGet = "prompts/get"

// passedMethods are the requests beside calls that go to servers. Others have no
// name of their own, since clients could make up any number of them.
var passedMethods = map[string]bool{
	methodGet: true, "resources/read": true, "resources/subscribe": true, "resources/unsubscribe": true, "completion/complete": true,
	"tasks/get": true, "tasks/update": true, "tasks/cancel": true, "tasks/list": true, "tasks/result": true,
}

// methodOf is the protocol's method of a call.
func methodOf(call *messages.Call) string {
	switch {
	case call.OfTool():
		return methodCall
	case passedMethods[call.Method]:
		return call.Method
	}
	return errorOther
}

// operation is what the conventions say of calls of tools, and of nothing else.
func operation(call *messages.Call) []attribute.KeyValue {
	if !call.OfTool() {
		return nil
	}
	return []attribute.KeyValue{attrOperation.String(executeTool)}
}

// promptOf is the prompt that is asked for; "": none is. Its server has it: who
// asks for another one is refused before.
func promptOf(call *messages.Call) string {
	if call.Method != methodGet {
		return ""
	}
	var params struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(call.Params, &params) // what is no name has none
	return params.Name
}

// spanName is the method with the tool or prompt that it is about. A resource is
// not named: addresses may hold what must not be told.
func spanName(call *messages.Call, tool string) string {
	name, of := methodOf(call), promptOf(call)
	if call.OfTool() {
		of = tool
	}
	if of == "" {
		return name
	}
	return name + " " + of
}
