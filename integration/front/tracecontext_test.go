package front

import (
	"fmt"
	"strings"
	"testing"
)

func TestTraceContextOfARequest(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, tc := range []struct{ meta, parent, state, baggage string }{
		{`{}`, "", "", ""},
		{`null`, "", "", ""},
		{`{"traceparent":"p","tracestate":"s","baggage":"b"}`, `"p"`, `"s"`, `"b"`},
		{`{"progressToken":1,"baggage":"\u0062","traceparent" : "p"}`, `"p"`, "", `"\u0062"`},
		{`{"traceparent":7,"tracestate":null,"baggage":["b"]}`, "", "", ""},
		{`{"traceparent":"","tracestate":{"traceparent":"p"}}`, "", "", ""},
		{`{"traceparent":` + long(maxTraceParent) + `,"tracestate":` + long(maxTraceState) + `,"baggage":` + long(maxBaggage) + `}`, long(maxTraceParent), long(maxTraceState), long(maxBaggage)},
		{`{"traceparent":` + long(maxTraceParent+1) + `,"tracestate":` + long(maxTraceState+1) + `,"baggage":` + long(maxBaggage+1) + `}`, "", "", ""},
	} {
		line := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"s","tool":"t"},"_meta":%s}}`, tc.meta)
		in, err := parseIncoming([]byte(line))
		if err != nil {
			t.Fatalf("%.100s: %v", tc.meta, err)
		}
		got := in.traceContext()
		if string(got.Parent) != tc.parent || string(got.State) != tc.state || string(got.Baggage) != tc.baggage {
			t.Errorf("%.100s: %.50s, %.50s, %.50s", tc.meta, got.Parent, got.State, got.Baggage)
		}
	}
}
