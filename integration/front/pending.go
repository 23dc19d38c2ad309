package front

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/messages"
)

// pending is a call of the spliced tool that waits for its answer. It is all
// that such a call allocates, and the port for both answer and progress.
type pending struct {
	Entry
	c *connection
}

// lineBuffers holds buffers for lines while they are built. A buffer that a
// large line may have passed is not: whoever writes that keeps it.
var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

func withLine(f func(dst []byte) []byte) {
	buf := lineBuffers.Get().(*[]byte)
	*buf = f((*buf)[:0])
	if cap(*buf) < largePart {
		lineBuffers.Put(buf)
	}
}

// Answer writes the answer to the client; see [messages.ReplyPort].
func (p *pending) Answer(a *messages.Answer) {
	if !p.c.finish(&p.Entry) {
		p.c.finished(&p.Entry, func(e *Entry) { p.c.write(e, a) })
		return
	}
	defer p.c.running.Done()
	p.c.write(&p.Entry, a)
}

// write writes the answer to a request that has been taken out of the table.
func (c *connection) write(e *Entry, a *messages.Answer) {
	info := c.opts.ServerInfo
	c.carried(a)
	result, err := a.Result, a.Err
	switch {
	case err != nil && e.exposedAs != "":
		err = InNameOf(e.exposedAs, err)
	case err != nil && e.passed:
		own := *err
		own.Hint = entryTimeout(own.Hint)
		err = &own
	}
	if a.NeedsInput {
		result = c.bind(e, result)
	}
	if len(result) >= largePart {
		e.large(result, info)
		return
	}
	if st, overHTTP := e.out.(*stream); overHTTP && a.RPCError != nil {
		st.setForeign()
	}
	withLine(func(dst []byte) []byte {
		switch {
		case err != nil && e.passed:
			dst = AppendFailure(dst, e.ID, err, e.Era)
		case err != nil:
			dst = AppendToolError(dst, e.ID, err, e.Era, info)
		case a.RPCError != nil:
			dst = AppendRPCError(dst, e.ID, a.RPCError)
		default:
			dst = AppendResult(dst, e.ID, result, e.Era, info)
		}
		if a.More {
			e.out.Hold(dst)
		} else {
			_ = e.out.Answer(dst) // the session ends when the output fails
		}
		return dst
	})
}

// InNameOf is an error of a call by an exposed name in words of that name: its
// client may know neither the tool's own nor mcp_discover.
func InNameOf(as string, err *messages.Error) *messages.Error {
	own := *err
	tool, server := strconv.Quote(err.Tool), strconv.Quote(err.Server)
	for _, of := range []string{tool + " of " + server, tool} {
		if err.Tool != "" && strings.Contains(own.Message, of) {
			own.Message = strings.Replace(own.Message, of, strconv.Quote(as), 1)
			break
		}
	}
	if at := strings.Index(own.Hint, "mcp_discover"); at >= 0 {
		own.Hint = "tools/list has the tools that there are, with their schemas."
		if err.Code == messages.CodeValidation {
			own.Hint = "Correct the arguments; tools/list has the schema of " + as + "."
		}
	}
	own.Hint = entryTimeout(own.Hint)
	return &own
}

// entryTimeout is a hint for a request that is no call of the spliced tool: its client
// cannot give it a timeout.
func entryTimeout(hint string) string {
	const before, behind = "onger timeoutMs", " in the server's entry"
	if strings.Contains(hint, before+behind) {
		return hint // it was made so already
	}
	return strings.ReplaceAll(hint, before, before+behind)
}

// large writes a large result without copying it.
func (e *Entry) large(result json.RawMessage, info []byte) {
	var parts [7][]byte
	split := splitResult(result, e.Era, info)
	list := append(parts[:0], appendHead(nil, e.ID, `,"result":`))
	list = append(list, split.of()...)
	list = append(list, []byte{'}'})
	_ = e.out.Answer(list...) // the session ends when the output fails
}

// Progress writes a progress notification; see [messages.ProgressPort].
func (p *pending) Progress(_ uint64, params json.RawMessage) {
	out, token, live := p.c.progress(&p.Entry)
	if !live {
		return
	}
	withLine(func(dst []byte) []byte {
		dst = AppendProgress(dst, token, params)
		_ = out.Write(dst) // the session ends when the output fails
		return dst
	})
}
