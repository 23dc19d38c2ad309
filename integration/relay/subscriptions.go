package relay

import (
	"encoding/json"
	"fmt"
	"slices"
)

// resources are those that a client with a handshake has subscribed to.
type resources struct {
	params map[string]json.RawMessage // of the request, by URI
	size   int
}

// The bounds of what is kept of them: what is beyond ends with its host.
const (
	maxResources     = 4096
	maxResourceBytes = 1 << 20
)

func uriOf(params json.RawMessage) string {
	var p struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(params, &p) // what is no such request has no URI
	return p.URI
}

func (s *resources) add(params json.RawMessage) {
	uri := uriOf(params)
	if uri == "" || s.params[uri] != nil || len(s.params) >= maxResources || s.size+len(params) > maxResourceBytes {
		return
	}
	if s.params == nil {
		s.params = map[string]json.RawMessage{}
	}
	s.params[uri] = slices.Clone(params)
	s.size += len(params)
}

func (s *resources) remove(params json.RawMessage) {
	uri := uriOf(params)
	s.size -= len(s.params[uri])
	delete(s.params, uri)
}

// moved tells whether a host that ends soon answers a subscription, which is the
// next host's then: the client is to see it end only when it ends for good.
func (r *relay) moved(l *link, scan *scanner) bool {
	if !l.drains.Load() || scan.id == nil || scan.method != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(scan.id)
	defer delete(l.moved, id)
	if l.moved[id] {
		return true
	}
	req := r.table[id]
	if req == nil || req.link != l || r.listens[id] == nil || r.eof {
		return false
	}
	r.leave(req) // the next host is told of it in the handshake
	return true
}

// toldBefore tells whether a host acknowledges a subscription of which the client
// knows from the host before. The lines are what the client may have missed.
func (r *relay) toldBefore(line []byte) (lines [][]byte, told bool) {
	var n struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &n) != nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(n.Params.Meta[keySubscription])
	req := r.table[id]
	if req == nil || req.method != methodListen || !req.told {
		if req != nil {
			req.told = true
		}
		return nil, false
	}
	return missed(id, r.listens[id]), true
}

// listen is what a subscription without a handshake asks for.
type listen struct {
	Params struct {
		Notifications struct {
			Tools     bool     `json:"toolsListChanged"`
			Resources bool     `json:"resourcesListChanged"`
			Prompts   bool     `json:"promptsListChanged"`
			URIs      []string `json:"resourceSubscriptions"`
		} `json:"notifications"`
	} `json:"params"`
}

// missed are notices of all that a subscription without a handshake is about.
func missed(id string, line []byte) (lines [][]byte) {
	var l listen
	if json.Unmarshal(line, &l) != nil {
		return nil
	}
	wants := l.Params.Notifications
	for _, list := range []struct {
		method string
		wanted bool
	}{{methodTools, wants.Tools}, {methodResources, wants.Resources}, {methodPrompts, wants.Prompts}} {
		if list.wanted {
			lines = append(lines, notice(list.method, "", id))
		}
	}
	for _, uri := range wants.URIs {
		lines = append(lines, notice(methodUpdated, uri, id))
	}
	return lines
}

// resubscribe are the requests that tell a new host of the resources that a client
// with a handshake has subscribed to. r.mu is held.
func (r *relay) resubscribe(l *link) (lines [][]byte) {
	l.repeated = make(map[string]string, len(r.subscribed.params))
	for uri, params := range r.subscribed.params {
		id, line := r.own(methodSubscribe, params)
		l.repeated[id] = uri
		lines = append(lines, line)
	}
	return lines
}

// resubscribed takes the answer to one of them, and tells the client: the resource
// may have changed while nobody looked.
func (r *relay) resubscribed(l *link, id string) bool {
	r.mu.Lock()
	uri, ours := l.repeated[id]
	delete(l.repeated, id)
	wanted := r.subscribed.params[uri] != nil
	r.mu.Unlock()
	if ours && wanted {
		r.write([][]byte{notice(methodUpdated, uri, "")})
	}
	return ours
}

// notice is a notification, about a resource and for a subscription unless these
// are empty; the subscription's id is raw.
func notice(method, uri, subscription string) []byte {
	params := map[string]any{}
	if uri != "" {
		params["uri"] = uri
	}
	if subscription != "" {
		params["_meta"] = map[string]json.RawMessage{keySubscription: json.RawMessage(subscription)}
	}
	text, err := json.Marshal(params)
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":%s}`+"\n", method, text)
}
