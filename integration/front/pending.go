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
		return
	}
	defer p.c.running.Done()
	info := p.c.opts.ServerInfo
	if len(a.Result) >= largePart {
		p.large(a.Result, info)
		return
	}
	withLine(func(dst []byte) []byte {
		switch {
		case a.Err != nil:
			dst = AppendToolError(dst, p.ID, a.Err, p.Era, info)
		case a.RPCError != nil:
			dst = AppendRPCError(dst, p.ID, a.RPCError)
		default:
			dst = AppendResult(dst, p.ID, a.Result, p.Era, info)
		}
		if a.More {
			p.out.Hold(dst)
		} else {
			_ = p.out.Answer(dst) // the session ends when the output fails
		}
		return dst
	})
}

// large writes a large result without copying it.
func (p *pending) large(result json.RawMessage, info []byte) {
	var parts [7][]byte
	split := splitResult(result, p.Era, info)
	list := append(parts[:0], appendHead(nil, p.ID, `,"result":`))
	list = append(list, split.of()...)
	list = append(list, []byte{'}'})
	_ = p.out.Answer(list...) // the session ends when the output fails
}

// Progress writes a progress notification; see [messages.ProgressPort].
func (p *pending) Progress(_ uint64, params json.RawMessage) {
	p.c.mu.Lock()
	live := p.c.table.Live(&p.Entry)
	p.c.mu.Unlock()
	if !live {
		return
	}
	withLine(func(dst []byte) []byte {
		dst = AppendProgress(dst, p.Token, params)
		_ = p.out.Write(dst) // the session ends when the output fails
		return dst
	})
}
