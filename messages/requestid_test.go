package messages

import (
	"strings"
	"testing"
)

func TestParseRequestID(t *testing.T) {
	for raw, want := range map[string]uint64{
		`7`: 7, `7.0`: 7, `"7"`: 7, `"7.00"`: 7, `1e3`: 1000, `1.2E+1`: 12, `1234567890123456`: 1234567890123456, `9007199254740991.0`: 9007199254740991,
	} {
		if id, ok := ParseRequestID([]byte(raw)); !ok || id != want {
			t.Errorf("%s is read as %d, %v", raw, id, ok)
		}
	}
	for _, raw := range []string{``, `""`, `7.5`, `-7`, `-7.0`, `1e300`, `9007199254740993.0`, `12345678901234567`, `null`, `"x"`, `0x7`, `"Inf"`, `"NaN"`, `1_0`, `{}`, `7.` + strings.Repeat("0", 50)} {
		if id, ok := ParseRequestID([]byte(raw)); ok {
			t.Errorf("%s is read as %d", raw, id)
		}
	}
}
