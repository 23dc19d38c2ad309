package front

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// binding is what a request asks for, whatever its id and its input are.
func binding(params json.RawMessage) (sum [sha256.Size]byte, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(params))
	dec.UseNumber()
	var members map[string]any
	if dec.Decode(&members) != nil {
		return sum, false
	}
	for _, other := range []string{"_meta", "inputResponses", "requestState"} {
		delete(members, other)
	}
	text, err := json.Marshal(members)
	return sha256.Sum256(text), err == nil
}

// bind binds the state in a result that asks for input to the request.
func (c *connection) bind(e *Entry, result json.RawMessage) json.RawMessage {
	start, end, ok := jsonrpc.Index(result, "requestState")
	if !ok {
		return result
	}
	state, err := jsonrpc.Unquote(result[start:end])
	sum, good := binding(e.params)
	if err != nil || !good {
		return result
	}
	bound := slices.Clone(result[:start])
	state = strconv.FormatUint(c.opts.Parked.spent.issue(), 36) + "." + state
	bound = jsonrpc.AppendQuote(bound, boundPrefix+c.mac(sum, state)+"."+state)
	return append(bound, result[end:]...)
}

func (c *connection) mac(sum [sha256.Size]byte, state string) string {
	h := hmac.New(sha256.New, c.opts.Parked.key[:])
	h.Write(sum[:])
	owner := sha256.Sum256([]byte(c.owner()))
	h.Write(owner[:])
	h.Write([]byte(state))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16])
}

// input is what a call brings of what a server had asked for. ok is false where its
// state is not one that was given out for this very call, or was used before.
func (c *connection) input(in *incoming) (input *messages.Input, ok bool) {
	state, responses := in.slots[slotState], in.slots[slotResponses]
	if state == nil && responses == nil {
		return nil, true
	}
	input = &messages.Input{Responses: responses}
	if absent(state) {
		return input, true
	}
	text, err := jsonrpc.Unquote(state)
	mac, rest, cut := strings.Cut(strings.TrimPrefix(text, boundPrefix), ".")
	sum, good := binding(in.Params)
	if err != nil || !good || !cut || !strings.HasPrefix(text, boundPrefix) || !hmac.Equal([]byte(mac), []byte(c.mac(sum, rest))) {
		return nil, false
	}
	number, own, _ := strings.Cut(rest, ".")
	if n, err := strconv.ParseUint(number, 36, 64); err != nil || !c.opts.Parked.spent.use(n) {
		return nil, false
	}
	input.State = jsonrpc.AppendQuote(nil, own)
	return input, true
}
