package jsonc

import "github.com/tailscale/hujson"

// Kind says what a value is, for people: "an object", "null" …
func Kind(v *hujson.Value) string {
	switch v.Value.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	default:
		return "null"
	}
}
