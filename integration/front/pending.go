package front

import (
	"encoding/json"
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
// large line has passed is not kept.
var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

func withLine(f func(dst []byte) []byte) {
	buf := lineBuffers.Get().(*[]byte)
	*buf = f((*buf)[:0])
	if cap(*buf) <= largePart {
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
	result := a.Result
	if a.NeedsInput {
		result = c.bind(e, result)
	}
	if len(result) >= largePart {
		e.large(result, info)
		return
	}
	withLine(func(dst []byte) []byte {
		switch {
		case a.Err != nil && e.passed:
			dst = AppendFailure(dst, e.ID, a.Err, e.Era)
		case a.Err != nil:
			dst = AppendToolError(dst, e.ID, a.Err, e.Era, info)
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
