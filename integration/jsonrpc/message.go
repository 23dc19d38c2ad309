package jsonrpc

import "encoding/json"

// Message is one JSON-RPC 2.0 message. Its raw members alias the line that it
// was parsed from; nil stands for a member that is absent, and a member that
// is null is the four bytes of null.
type Message struct {
	ID     json.RawMessage // a string, a number or null
	Params json.RawMessage
	Result json.RawMessage
	Error  json.RawMessage
	Method string // unquoted; "" when absent
}

// IsRequest says whether m wants an answer: it has a method and an id. An id
// of null counts, for the caller to refuse.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification says whether m has a method and no id.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// OneKind returns a [*MessageError] for a message that is a request or a notification and
// a response at once, which [Parse] lets pass: by its method, and by a result or an error.
// Members that are null do not count, since whoever writes all messages from one structure
// has them in each.
func OneKind(method string, result, err json.RawMessage) error {
	if method != "" && (isSet(result) || isSet(err)) {
		return errMixed
	}
	return nil
}

// isSet says whether a member is there and not null.
func isSet(raw []byte) bool { return raw != nil && string(raw) != "null" }

// The slots of messageFields, which every message shape begins with except
// that params may have fields inside.
const (
	slotVersion = iota
	slotID
	slotMethod
	slotResult
	slotError
	slotParams
	messageSlots
)

func messageFields(params ...Field) []Field {
	return []Field{{Name: "jsonrpc"}, {Name: "id"}, {Name: "method"}, {Name: "result"}, {Name: "error"}, {Name: "params", Fields: params}}
}

var plainMessage = newShape(messageFields(), 0)

// maxSlots is how many captures of one message fit on the stack.
const maxSlots = 32

// Parse checks that line is one strict JSON text and a JSON-RPC 2.0 message,
// and cuts out its members. Space around the message, including the line feed,
// is allowed.
//
// It returns a [*SyntaxError] for a text that is no JSON and a [*MessageError]
// for JSON that is no message; with the latter the Message holds an id where
// exactly one was found, so that the error can be answered. It allocates only for an
// error and for a method name that is not one of the protocol's own.
func Parse(line []byte) (Message, error) {
	var slots [messageSlots]span
	m, _, err := parse(line, plainMessage, slots[:], nil)
	return m, err
}

// Names are up to eight names of members that [ParseNaming] looks for.
type Names [8]string

// of is the bit of name, as it is written in the text; 0: it is none of them.
func (n *Names) of(name []byte) uint8 {
	for i := range n {
		if string(name) == n[i] && len(name) > 0 {
			return 1 << i
		}
	}
	return 0
}

// ParseNaming is [Parse], and in the same pass it finds out which of names are those
// of members at any depth: bit i of seen stands for names[i]. Names that are
// written with escapes are not seen.
func ParseNaming(line []byte, names *Names) (m Message, seen uint8, err error) {
	var slots [messageSlots]span
	return parse(line, plainMessage, slots[:], names)
}

// ParamsShape is the list of members that are wanted of a message's params, for
// [ParseShape]. With more than 26 fields, nested ones and names of others included,
// each ParseShape allocates.
type ParamsShape struct{ sh *shape }

// ParseShape is [Parse], and in the same pass it stores the raw values of the
// shape's fields in out, in the order of the shape; nil for those that are
// absent. Only the first len(out) are stored.
func ParseShape(line []byte, shape ParamsShape, out [][]byte) (Message, error) {
	var few [maxSlots]span
	slots := few[:]
	if shape.sh.slots > maxSlots {
		slots = make([]span, shape.sh.slots)
	}
	slots = slots[:shape.sh.slots]
	m, _, err := parse(line, shape.sh, slots, nil)
	for i, v := range slots[messageSlots:] {
		if i == len(out) {
			break
		}
		out[i] = v.of(line)
	}
	return m, err
}

func parse(line []byte, sh *shape, slots []span, look *Names) (m Message, seen uint8, err error) {
	s := scanner{b: line, out: slots, look: look}
	if s.text(sh) < 0 {
		clear(slots)
		return m, 0, s.err()
	}
	switch line[s.space(0)] {
	case '{':
	case '[':
		return m, s.seen, errBatch
	default:
		return m, s.seen, errNotObject
	}
	if id := slots[slotID].of(line); id != nil {
		if c := id[0]; c != '"' && c != 'n' && c != '-' && c-'0' >= 10 {
			return m, s.seen, errID
		}
		m.ID = id
	}
	if s.odd.key.end != 0 {
		if s.odd.id {
			m.ID = nil // the error would answer another request, by one reading
		}
		return m, s.seen, s.odd.error(line)
	}
	if !isString(slots[slotVersion].of(line), "2.0") {
		return m, s.seen, errVersion
	}
	if raw := slots[slotMethod].of(line); raw != nil {
		if raw[0] != '"' || len(raw) == 2 {
			return m, s.seen, errMethod
		}
		m.Method = intern(raw)
	}
	m.Params, m.Result, m.Error = slots[slotParams].of(line), slots[slotResult].of(line), slots[slotError].of(line)
	if m.Method == "" && m.Result == nil && m.Error == nil {
		return m, s.seen, errEmpty
	}
	return m, s.seen, nil
}

// isString says whether raw is a JSON string that reads want.
func isString(raw []byte, want string) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	body := raw[1 : len(raw)-1]
	return string(body) == want || hasEscape(body) && string(unescape(nil, body)) == want
}

// intern returns the string that raw quotes, without an allocation for the
// methods of the protocol.
func intern(raw []byte) string {
	body := raw[1 : len(raw)-1]
	switch string(body) {
	case "tools/call":
		return "tools/call"
	case "tools/list":
		return "tools/list"
	case "ping":
		return "ping"
	case "initialize":
		return "initialize"
	case "server/discover":
		return "server/discover"
	case "subscriptions/listen":
		return "subscriptions/listen"
	case "logging/setLevel":
		return "logging/setLevel"
	case "notifications/progress":
		return "notifications/progress"
	case "notifications/cancelled":
		return "notifications/cancelled"
	case "notifications/message":
		return "notifications/message"
	case "notifications/initialized":
		return "notifications/initialized"
	case "notifications/tools/list_changed":
		return "notifications/tools/list_changed"
	}
	if hasEscape(body) {
		return string(unescape(nil, body))
	}
	return string(body)
}
