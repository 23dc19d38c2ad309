package relay

import (
	"errors"
	"fmt"
	"time"
)

// ownPrefix begins the ids of the relay's own requests.
const ownPrefix = "metamcp-relay/handshake-"

// resume tells a new host of the session that the client has.
func (r *relay) resume(l *link) error {
	r.mu.Lock()
	greeted := r.initialize != nil && !r.waitsFor(methodInitialize)
	params, initialized, level := r.initialize, r.initialized, r.level
	var listens, resources [][]byte
	if greeted {
		resources = r.resubscribe(l)
		if initialized {
			r.unholdReady()
		}
	}
	for id, line := range r.listens {
		if req := r.table[id]; req != nil && (req.link == nil && !r.isHeld(req) || req.link != nil && req.link.draining) {
			if old := req.link; old != nil {
				if old.moved == nil {
					old.moved = map[string]bool{}
				}
				old.moved[id] = true
			}
			r.assign(req, l)
			req.sent = true
			listens = append(listens, line)
		}
	}
	r.mu.Unlock()
	if greeted {
		if err := r.ask(l, methodInitialize, params); err != nil {
			return err
		}
		if initialized {
			if _, err := l.conn.Write([]byte(`{"jsonrpc":"2.0","method":"` + methodInitialized + `"}` + "\n")); err != nil {
				return err
			}
		}
		if level != nil {
			if err := r.ask(l, methodSetLevel, level); err != nil {
				return err
			}
		}
	}
	// Nobody waits for the answers, which take as long as a server's start.
	for _, line := range append(listens, resources...) {
		if _, err := l.conn.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// own is the next request of the relay's own. r.mu is held.
func (r *relay) own(method string, params []byte) (id string, line []byte) {
	r.number++
	id = fmt.Sprintf(`"%s%d"`, ownPrefix, r.number)
	line = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q`, id, method)
	if params != nil {
		line = append(append(line, `,"params":`...), params...)
	}
	return id, append(line, "}\n"...)
}

// ask sends a request of the relay's own and waits for the answer.
func (r *relay) ask(l *link, method string, params []byte) error {
	r.mu.Lock()
	id, line := r.own(method, params)
	r.mu.Unlock()
	if _, err := l.conn.Write(line); err != nil {
		return err
	}
	timer := time.NewTimer(handshakePatience)
	defer timer.Stop()
	for {
		select {
		case got := <-l.handshake:
			if string(got) == id {
				return nil
			}
		case <-timer.C:
			return fmt.Errorf("the host did not answer %s within %v", method, handshakePatience)
		case <-l.gone:
			return errors.New("the host ended during the handshake")
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
}
