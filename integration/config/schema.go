package config

import (
	"encoding/json"
	"strconv"
	"strings"
)

// SchemaID is the address of the published schema.
const SchemaID = "https://raw.githubusercontent.com/metamcp/metamcp/main/docs/config.schema.json"

type schemaObject = map[string]any

// Schema returns the JSON Schema (2020-12) of a whole configuration file,
// made from [Keys] and [EntryKeys]; docs/config.schema.json is its copy. It
// is stricter than [Load] where strictness helps somebody who types: unknown
// members of "metamcp" are errors.
func Schema() []byte {
	servers := schemaObject{
		"type":                 "object",
		"propertyNames":        schemaObject{"minLength": 1, "maxLength": 128},
		"additionalProperties": schemaObject{"$ref": "#/$defs/server"},
	}
	root := schemaObject{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     SchemaID,
		"title":   "Configuration of metamcp",
		"type":    "object",
		"properties": schemaObject{
			"mcpServers": withDoc(servers, "The servers behind metamcp, by name, as Claude writes them."),
			"servers":    withDoc(servers, "The same, as VS Code writes them."),
			"metamcp":    metamcpSchema(),
		},
		"$defs": schemaObject{"server": serverSchema(), "toolRule": ruleSchema()},
		// Understood by VS Code's editor.
		"allowComments": true, "allowTrailingCommas": true,
	}
	// Nothing but maps, lists, strings, numbers and booleans is in it, so that
	// writing it cannot fail.
	text, _ := json.MarshalIndent(root, "", "  ")
	return append(text, '\n')
}

func withDoc(s schemaObject, doc string) schemaObject {
	out := schemaObject{"description": doc}
	for k, v := range s {
		out[k] = v
	}
	return out
}

func serverSchema() schemaObject {
	properties := schemaObject{}
	for _, k := range entryTable {
		s := k.schema
		if s == nil {
			s = schemaObject{"type": "integer", "minimum": k.Min, "maximum": k.Max}
		}
		s = withDoc(s, k.Doc)
		if k.Default != "" {
			s["default"] = defaultValue(k.Default)
		}
		properties[k.Name] = s
	}
	return schemaObject{
		"description": "One server: a command that is started, or a url.",
		"type":        "object",
		"properties":  properties,
		"oneOf":       []any{schemaObject{"required": []any{"command"}}, schemaObject{"required": []any{"url"}}},
	}
}

func ruleSchema() schemaObject {
	return schemaObject{
		"description": "The first matching rule with enabled decides; the tags of all that match count.",
		"type":        "object",
		"properties": schemaObject{
			"pattern": schemaObject{"description": "Globs, /regular expressions/ or !negations of tool names.", "oneOf": []any{
				schemaObject{"type": "string", "minLength": 1},
				schemaObject{"type": "array", "minItems": 1, "items": schemaObject{"type": "string", "minLength": 1}},
			}},
			"server":  schemaObject{"description": "The server whose tools are meant; without it all.", "type": "string"},
			"enabled": schemaObject{"description": "true in any rule makes the default disabled.", "type": "boolean"},
			"tags":    schemaStrings,
		},
		"required":             []any{"pattern"},
		"additionalProperties": false,
	}
}

func metamcpSchema() schemaObject {
	closed := func(doc string) schemaObject {
		return schemaObject{"description": doc, "type": "object", "properties": schemaObject{}, "additionalProperties": false}
	}
	root := closed("Settings of metamcp itself.")
	for i := range keyTable {
		k := &keyTable[i]
		into := root["properties"].(schemaObject)
		group, leaf, nested := strings.Cut(k.Path, ".")
		if !nested {
			into[group] = k.schema()
			continue
		}
		if into[group] == nil {
			into[group] = closed("Settings of " + group + ".")
		}
		into[group].(schemaObject)["properties"].(schemaObject)[leaf] = k.schema()
	}
	return root
}

// schema is the JSON Schema of one key.
func (k *Key) schema() schemaObject {
	s := schemaObject{"description": k.Doc}
	switch k.Type {
	case TypeInt, TypeMillis:
		s["type"], s["minimum"], s["maximum"] = "integer", k.Min, k.Max
	case TypeBool:
		s["type"] = "boolean"
	case TypeEnum:
		s["type"], s["enum"] = "string", k.Enum
	case TypeList:
		s["oneOf"] = []any{schemaObject{"type": "string"}, schemaStrings}
		if k.Enum != nil {
			one := schemaObject{"type": "string", "enum": k.Enum}
			s["oneOf"] = []any{one, schemaObject{"type": "array", "items": one}}
		}
	case TypeRules:
		s["type"], s["items"] = "array", schemaObject{"$ref": "#/$defs/toolRule"}
	case TypeTrace:
		s["type"] = []any{"boolean", "string"}
	default:
		s["type"] = "string"
	}
	if k.Default != "" {
		s["default"] = defaultValue(k.Default)
	}
	return s
}

// defaultValue is a default as JSON holds it.
func defaultValue(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if b, err := strconv.ParseBool(text); err == nil {
		return b
	}
	return text
}
