package worker

import (
	"encoding/json"
	"fmt"
	"io"

	"modernc.org/quickjs"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// Main serves a host over in and out until in ends, and returns the exit
// status of the process.
func Main(in io.Reader, out, stderr io.Writer) int {
	if err := sandbox.WriteFrame(out, &sandbox.Frame{Ready: &sandbox.Status{}}); err != nil {
		return 1
	}
	f, err := sandbox.ReadFrame(in, func() int64 { return sandbox.MaxFrame })
	if err != nil || f.Script == nil {
		return 1
	}
	vm, err := quickjs.NewVM()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	o := &sandbox.Outcome{}
	v, err := vm.Eval("JSON.stringify((()=>{"+f.Script.Code+"\n})())", quickjs.EvalGlobal)
	if err != nil {
		o.Failure = &sandbox.Failure{Kind: sandbox.FailException, Message: err.Error()}
	} else if s, ok := v.(string); ok {
		o.Value = json.RawMessage(s)
	}
	if err := sandbox.WriteFrame(out, &sandbox.Frame{Run: f.Run, Outcome: o}); err != nil {
		return 1
	}
	_, _ = sandbox.ReadFrame(in, func() int64 { return sandbox.MaxFrame })
	return 0
}
