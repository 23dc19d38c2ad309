package pins

import "encoding/json"

// Canonical is [canonical] without the print.
func Canonical(definition json.RawMessage) json.RawMessage {
	text, _ := canonical(definition)
	return text
}
