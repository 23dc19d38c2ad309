package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
)

// A call of a script passes the pipe as an ask and as the value that answers
// it, so these two are not JSON around JSON, which both ends would have to
// read twice. They begin with one of these bytes, which no JSON text does:
//
//	ask    run and id (8 bytes each), kind and raw (1 each), timeoutMs (8),
//	       lengths of server and tool (4 each), server, tool, arguments
//	value  run and id (8 bytes each), value
const (
	packedAsk   = 1
	packedValue = 2
)

const (
	askHead   = 1 + 8 + 8 + 1 + 1 + 8 + 4 + 4
	valueHead = 1 + 8 + 8
)

// packed returns the frame with room for its length in front; nil: it is one
// that goes as JSON.
func packed(f *Frame) []byte {
	order := binary.BigEndian
	switch {
	case f.Ask != nil:
		a := f.Ask
		b := make([]byte, headBytes, headBytes+askHead+len(a.Server)+len(a.Tool)+len(a.Args))
		b = order.AppendUint64(append(b, packedAsk), f.Run)
		b = append(order.AppendUint64(b, a.ID), byte(a.Kind), oneIf(a.Raw))
		b = order.AppendUint64(b, uint64(a.TimeoutMs))
		b = order.AppendUint32(b, uint32(len(a.Server)))
		b = order.AppendUint32(b, uint32(len(a.Tool)))
		b = append(append(b, a.Server...), a.Tool...)
		return append(b, a.Args...)
	case f.Reply != nil && f.Reply.Err == nil && len(f.Reply.Value) > 0:
		b := make([]byte, headBytes, headBytes+valueHead+len(f.Reply.Value))
		b = order.AppendUint64(append(b, packedValue), f.Run)
		return append(order.AppendUint64(b, f.Reply.ID), f.Reply.Value...)
	}
	return nil
}

func oneIf(yes bool) byte {
	if yes {
		return 1
	}
	return 0
}

func isPacked(body []byte) bool {
	return len(body) > 0 && (body[0] == packedAsk || body[0] == packedValue)
}

var errShort = errors.New("sandbox: a frame is shorter than it must be")

// unpack reads a packed frame, which may come from a worker that was taken over.
// It keeps body.
func unpack(body []byte) (*Frame, error) {
	if body[0] == packedAsk {
		return unpackAsk(body)
	}
	if len(body) <= valueHead {
		return nil, errShort
	}
	order := binary.BigEndian
	return &Frame{Run: order.Uint64(body[1:]), Reply: &Reply{ID: order.Uint64(body[9:]), Value: body[valueHead:]}}, nil
}

// unpackAsk makes sure that the names are text and the arguments JSON.
func unpackAsk(body []byte) (*Frame, error) {
	if len(body) < askHead {
		return nil, errShort
	}
	order := binary.BigEndian
	a := &Ask{ID: order.Uint64(body[9:]), Kind: AskKind(body[17]), Raw: body[18] == 1, TimeoutMs: int64(order.Uint64(body[19:]))}
	server, tool, rest := int64(order.Uint32(body[27:])), int64(order.Uint32(body[31:])), body[askHead:]
	if server+tool > int64(len(rest)) {
		return nil, errShort
	}
	a.Server = strings.ToValidUTF8(string(rest[:server]), "\ufffd")
	a.Tool = strings.ToValidUTF8(string(rest[server:server+tool]), "\ufffd")
	if a.Args = rest[server+tool:]; !json.Valid(a.Args) {
		return nil, errors.New("sandbox: a frame does not parse: the arguments of an ask are not JSON")
	}
	f := &Frame{Run: order.Uint64(body[1:]), Ask: a}
	return f, f.check()
}
