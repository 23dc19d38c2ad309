package worker

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// warmAfter is how long a worker waits for its script before it warms up: one
// that comes sooner would be slowed down by that.
const warmAfter = 20 * time.Millisecond

// warmUp does what takes long the first time while there is no script yet:
// esbuild makes its tables, and encoding/json learns the types of the frames.
// What it makes is of no use to anybody, so no error of it is one.
func warmUp() {
	script := &sandbox.Script{Code: "const a: string[] = []; return a", Servers: []sandbox.Server{{Tools: []string{""}}}, Results: []string{""}}
	if data, err := sandbox.EncodeFrame(&sandbox.Frame{Run: 1, Script: script}); err == nil {
		_, _ = sandbox.ReadFrame(bytes.NewReader(data), func() int64 { return sandbox.MaxFrame })
	}
	_, _, _ = startTexts(script)
	_, _ = sandbox.EncodeFrame(&sandbox.Frame{Run: 1, Outcome: &sandbox.Outcome{Value: json.RawMessage("1")}})
	_, _ = sourcemap.Parse("", transform(script.Code, api.LoaderTS, api.SourceMapExternal).Map)
}
