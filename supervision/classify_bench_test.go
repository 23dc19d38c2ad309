package supervision_test

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// BenchmarkDescribe takes the worst case: a long text in which no pattern matches,
// or one line only.
func BenchmarkDescribe(b *testing.B) {
	for name, ev := range map[string]messages.Evidence{
		"status": {HTTPStatus: 503},
		"text":   {Text: strings.Repeat("at missing frame (index.js:10)\n", 200)},
		"exit":   exitWith(1, strings.Repeat("at no frame\n", 250)+"Missing API key"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				supervision.Describe("s", ev)
			}
		})
	}
}
