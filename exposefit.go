package metamcp

import (
	"encoding/json"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// Clients check a list as a whole before they use any of it, so what one server writes
// wrong would take the tools of all others from them.

// anySchema is the schema of a tool that has none that clients can read.
const anySchema = `{"type":"object"}`

// fitting is a definition as the protocol has it, and whether that is another: members of
// a wrong type are left out, but for those that have to be there. What fits stays byte for
// byte. member is the list's, key that of the name.
func fitting(raw json.RawMessage, member, key string, era messages.Era) (fit json.RawMessage, other bool) {
	shape := definitionShapes[member]
	out := append(make([]byte, 0, len(raw)+len(anySchema)), '{')
	add := func(name, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendQuote(out, string(name)), ':'), value...)
	}
	needed := shape.needs != ""
	err := jsonrpc.Scan(raw, func(name, value []byte) error {
		if string(name) == shape.needs {
			needed = false
		}
		switch fits, known := shape.members[string(name)]; {
		case member == listOfTools && string(name) == "inputSchema":
			schema, changed := fittingSchema(value)
			if schema == nil {
				schema = []byte(anySchema)
			}
			other = other || changed
			value = schema
		case member == listOfTools && string(name) == "outputSchema" && era == messages.EraModern:
			if !isObject(value) { // of which revision 2026-07-28 asks for no type
				other = true
				return nil
			}
		case member == listOfTools && string(name) == "outputSchema":
			schema, changed := fittingSchema(value)
			other = other || changed
			if schema == nil {
				return nil
			}
			value = schema
		case known && !fits(value):
			other = true
			if string(name) != shape.needs {
				return nil
			}
			value = jsonrpc.Get(raw, key)
		}
		add(name, value)
		return nil
	})
	switch {
	case err != nil:
		return raw, false // it was read as an object before
	case needed && member == listOfTools:
		add([]byte(shape.needs), []byte(anySchema))
	case needed:
		add([]byte(shape.needs), jsonrpc.Get(raw, key))
	case !other:
		return raw, false
	}
	return append(out, '}'), true
}

const listOfTools = "tools"

// definitionShape is what the protocol says of the members of a definition.
type definitionShape struct {
	needs   string // has to be there, beside the name
	members map[string]func(value []byte) bool
}

var definitionShapes = map[string]definitionShape{
	listOfTools: {"inputSchema", map[string]func([]byte) bool{
		"title": isString, "description": isString, "icons": areIcons, "annotations": areHints, "execution": isExecution, "_meta": isObject,
	}},
	"prompts": {"", map[string]func([]byte) bool{
		"title": isString, "description": isString, "icons": areIcons, "arguments": areArguments, "_meta": isObject,
	}},
	"resources":         {"name", resourceMembers},
	"resourceTemplates": {"name", resourceMembers},
}

var resourceMembers = map[string]func([]byte) bool{
	"name": isString, "title": isString, "description": isString, "mimeType": isString, "size": isNumber,
	"icons": areIcons, "annotations": isAudience, "_meta": isObject,
}

// fittingSchema is a schema as that of a tool has to be: of an object, whose properties
// have objects for schemas too. Members of a wrong type are left out. It is nil of one that
// is of no object.
func fittingSchema(schema []byte) (fit []byte, other bool) {
	var typed, bad bool
	err := jsonrpc.Scan(schema, func(name, value []byte) error {
		switch string(name) {
		case "type":
			typed = true
			other = other || !isString(value)
			bad = bad || !takesObjects(value)
		case "$schema":
			other = other || !isString(value)
		case "required":
			other = other || !eachIs(value, isString)
		case "properties":
			other = other || !eachMemberIs(value, isObject)
		}
		return nil
	})
	switch {
	case err != nil || bad:
		return nil, true
	case typed && !other:
		return schema, false
	}
	out := []byte{'{'}
	if !typed {
		out = append(out, `"type":"object"`...)
	}
	return appendObject(out, schema, func(name, value []byte) []byte {
		switch {
		case string(name) == "type":
			return []byte(`"object"`)
		case string(name) == "$schema" && !isString(value), string(name) == "required" && !eachIs(value, isString):
			return nil
		case string(name) != "properties":
			return value
		case !isObject(value):
			return nil
		}
		return appendObject([]byte{'{'}, value, func(_, value []byte) []byte {
			switch {
			case isObject(value):
				return value
			case string(value) == "false":
				return []byte(`{"not":{}}`)
			}
			return []byte(`{}`) // true, or what says nothing of the argument
		})
	}), true
}

// takesObjects says whether the type of a schema is that of objects, or a list with it.
func takesObjects(value []byte) bool {
	object := isOneOf("object")
	if isString(value) {
		return object(value)
	}
	among := false
	err := jsonrpc.Elements(value, func(el []byte) error {
		among = among || object(el)
		return nil
	})
	return err == nil && among
}

// appendObject appends the members of a valid object to out, which is the beginning of
// one, with other values; one whose value is nil then is left out.
func appendObject(out, object []byte, value func(name, value []byte) []byte) []byte {
	_ = jsonrpc.Scan(object, func(name, v []byte) error { // it was read before
		if v = value(name, v); v == nil {
			return nil
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendQuote(out, string(name)), ':')
		out = append(out, v...)
		return nil
	})
	return append(out, '}')
}

func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

func isBool(value []byte) bool { return string(value) == "true" || string(value) == "false" }

func isNumber(value []byte) bool {
	return len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}

// eachIs says whether a value is an array of such.
func eachIs(value []byte, is func(value []byte) bool) bool {
	all := true
	err := jsonrpc.Elements(value, func(el []byte) error {
		all = all && is(el)
		return nil
	})
	return err == nil && all
}

// eachMemberIs says whether a value is an object whose members' values are all such.
func eachMemberIs(value []byte, is func(value []byte) bool) bool {
	all := true
	err := jsonrpc.Scan(value, func(_, value []byte) error {
		all = all && is(value)
		return nil
	})
	return err == nil && all
}

// hasOnly says whether a value is an object whose known members are as they have to be;
// needs are those that have to be there.
func hasOnly(value []byte, members map[string]func([]byte) bool, needs ...string) bool {
	all := true
	err := jsonrpc.Scan(value, func(name, value []byte) error {
		if is := members[string(name)]; is != nil {
			all = all && is(value)
		}
		return nil
	})
	for _, name := range needs {
		all = all && jsonrpc.Get(value, name) != nil
	}
	return err == nil && all
}

// isOneOf is a member that has one of these words.
func isOneOf(words ...string) func([]byte) bool {
	return func(value []byte) bool {
		text, err := jsonrpc.Unquote(value)
		if err != nil {
			return false
		}
		for _, word := range words {
			if text == word {
				return true
			}
		}
		return false
	}
}

func areIcons(value []byte) bool {
	return eachIs(value, func(icon []byte) bool {
		return hasOnly(icon, map[string]func([]byte) bool{
			"src": isString, "mimeType": isString, "sizes": func(value []byte) bool { return eachIs(value, isString) }, "theme": isOneOf("light", "dark"),
		}, "src")
	})
}

func areHints(value []byte) bool {
	return hasOnly(value, map[string]func([]byte) bool{
		"title": isString, "readOnlyHint": isBool, "destructiveHint": isBool, "idempotentHint": isBool, "openWorldHint": isBool,
	})
}

func isExecution(value []byte) bool {
	return hasOnly(value, map[string]func([]byte) bool{"taskSupport": isOneOf("required", "optional", "forbidden")})
}

func areArguments(value []byte) bool {
	return eachIs(value, func(argument []byte) bool {
		return hasOnly(argument, map[string]func([]byte) bool{
			"name": isString, "title": isString, "description": isString, "required": isBool,
		}, "name")
	})
}

// isAudience is for the annotations of what a model may read.
func isAudience(value []byte) bool {
	return hasOnly(value, map[string]func([]byte) bool{
		"audience": func(value []byte) bool { return eachIs(value, isOneOf("user", "assistant")) },
		"priority": func(value []byte) bool {
			var n float64
			return json.Unmarshal(value, &n) == nil && isNumber(value) && n >= 0 && n <= 1
		},
		"lastModified": isString,
	})
}
