package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// frame hands on one message, which came in answer to from, nil: to none. It returns
// the request that it answers, or was meant to, which is over then; nil: none.
func (k *Link) frame(text []byte, from *exchange) *exchange {
	f := &messages.Frame{Size: len(text)}
	if err := k.read(text, f); err != nil {
		return k.unusable(jsonrpc.AnsweredID(text, err), text, err)
	}
	// What comes in answer to one request is for no other. Servers that refuse one before
	// they read it do not know its id.
	if f.Method == "" && from != nil && (f.ID == nil || string(f.ID) == "null") {
		if len(f.Error) == 0 || f.Error[0] != '{' {
			return k.unusable(from.id, text, errNoID)
		}
		f.ID = from.id
	}
	return k.deliver(f, from)
}

var errNoID = errors.New("it is a result without an id")

// legible is [Link.frame] for an answer of whose being unreadable there is more to say
// than why; it says whether it could be read.
func (k *Link) legible(text []byte, from *exchange) bool {
	f := &messages.Frame{Size: len(text)}
	if k.read(text, f) != nil {
		k.noise(text)
		return false
	}
	k.deliver(f, from)
	return true
}

// read takes a message apart. What is no UTF-8 in it does not make it unreadable, but
// is replaced, as the HTML standard has it for event streams and the Fetch standard
// for bodies.
func (k *Link) read(text []byte, f *messages.Frame) error {
	err := k.parse(text, f)
	if err == nil || utf8.Valid(text) {
		return err
	}
	whole := jsonrpc.Repair(text)
	if len(whole) > k.l.o.MaxMessage {
		return errTooLarge
	}
	if err = k.parse(whole, f); err == nil {
		k.repaired.Do(func() {
			k.l.o.Log.Warn("a server sends text that is not UTF-8; each such byte becomes U+FFFD (this is said once)", "server", k.spec.Name)
		})
	}
	return err
}

func (k *Link) parse(text []byte, f *messages.Frame) error {
	if err := k.l.o.Parse(text, f); err != nil {
		return err
	}
	return jsonrpc.OneKind(f.Method, f.Result, f.Error)
}

// unusable tells of a message that cannot be read. The request with the id that it was
// meant to answer has no other answer to wait for: it is over, and returned; nil: it was
// meant for none.
func (k *Link) unusable(id json.RawMessage, text []byte, why error) *exchange {
	k.mu.Lock()
	x := k.answered(id)
	k.mu.Unlock()
	switch {
	case x == nil:
		k.noise(text)
	case errors.Is(why, errTooLarge):
		k.tooLarge(x.id)
	default:
		k.broken(x.id, text, why)
	}
	return x
}

// answered takes the request out of the table that an answer with this id is for, which a
// server may write otherwise than we did; nil: there is none. k.mu is held.
func (k *Link) answered(id json.RawMessage) *exchange {
	x := k.inflight[string(id)]
	if x == nil {
		n, ok := messages.ParseRequestID(id)
		if !ok {
			return nil
		}
		if x = k.inflight[strconv.FormatUint(n, 10)]; x == nil {
			return nil
		}
	}
	delete(k.inflight, string(x.id))
	return x
}

// deliver is [Link.frame] for a message that was read.
func (k *Link) deliver(f *messages.Frame, from *exchange) *exchange {
	var x *exchange
	relist := false
	if f.Method != "" && from != nil {
		f.Related = from.id
	}
	if f.Method == "" {
		k.mu.Lock()
		if x = k.answered(f.ID); x != nil {
			f.ID = x.id
			k.learn(x, f)
			relist = k.mismatched(x, f)
		}
		k.mu.Unlock()
		if x == nil && string(f.ID) == reachID {
			return nil
		}
	}
	k.tell(f)
	if relist {
		k.tell(&messages.Frame{Method: methodListChanged})
	}
	return x
}

func (k *Link) tell(f *messages.Frame) {
	k.earMu.Lock()
	defer k.earMu.Unlock()
	k.ear.Frame(f)
	k.ear.Flush()
}

func (k *Link) broken(id json.RawMessage, text []byte, why error) {
	k.earMu.Lock()
	defer k.earMu.Unlock()
	k.ear.Broken(id, beginning(text), why)
}

func (k *Link) tooLarge(id json.RawMessage) {
	k.earMu.Lock()
	defer k.earMu.Unlock()
	k.ear.TooLarge(id)
}

func (k *Link) tellUnheard() {
	k.earMu.Lock()
	defer k.earMu.Unlock()
	k.ear.Unheard()
}

func (k *Link) tellRenewed(welcome json.RawMessage) {
	k.earMu.Lock()
	defer k.earMu.Unlock()
	k.ear.Renewed(welcome)
}

func (k *Link) noise(text []byte) {
	k.earMu.Lock()
	defer k.earMu.Unlock()
	k.ear.Noise(beginning(text))
}

func beginning(text []byte) []byte {
	const enough = 4 << 10
	return bytes.Clone(text[:min(len(text), enough)])
}

// learn takes from an answer what later requests need. k.mu is held.
func (k *Link) learn(x *exchange, f *messages.Frame) {
	if len(f.Result) == 0 {
		return
	}
	switch {
	case x.method == methodInitialize && !k.settled:
		k.version = agreed(f.Result)
	case x.method == methodDiscover && !k.settled:
		k.modern = true
	case x.method == methodTools:
		k.listed = true
		if k.modern {
			f.Result = k.learnTools(x, f.Result)
		}
	}
}
