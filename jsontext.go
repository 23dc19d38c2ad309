package metamcp

import (
	"bytes"
	"encoding/json"
)

// withoutMember returns a JSON object without a member of it, byte for byte as
// it was otherwise.
func withoutMember(raw json.RawMessage, name string) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' || !bytes.Contains(raw, []byte(name)) {
		return raw
	}
	kept := []byte{'{'}
	for i := skipBlank(raw, 1); i < len(raw)-1; {
		from, key := i, ""
		end := skipValue(raw, i)
		_ = json.Unmarshal(raw[i:end], &key) // a key is a string
		end = skipValue(raw, skipBlank(raw, skipBlank(raw, end)+1))
		if key != name {
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(kept, raw[from:end]...)
		}
		i = skipBlank(raw, skipBlank(raw, end)+1)
	}
	return append(kept, '}')
}
func skipBlank(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\t' || raw[i] == '\r') {
		i++
	}
	return i
}

// skipValue is the end of the value of valid JSON that begins at i.
func skipValue(raw []byte, i int) int {
	for depth := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
			continue
		case ']', '}':
			depth--
		case ',', ':', ' ', '\n', '\t', '\r':
			continue
		default: // a number or a word, up to what cannot be in it
			for i+1 < len(raw) && !bytes.ContainsRune([]byte(",]} \n\t\r"), rune(raw[i+1])) {
				i++
			}
		}
		if depth <= 0 {
			return min(i+1, len(raw))
		}
	}
	return len(raw)
}
