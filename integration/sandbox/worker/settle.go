package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	lib "modernc.org/libquickjs"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// inOrder puts the end of each sleep behind the ends of those that are over
// before it: timers that are late together go off in any order.
func (e *engine) inOrder(events []event) []event {
	if !slices.ContainsFunc(events, func(ev event) bool { return ev.reply == nil }) {
		return events
	}
	var out []event
	told := make(map[uint64]bool)
	for _, ev := range events {
		last := e.pending[ev.slept]
		switch {
		case ev.reply != nil:
			out = append(out, ev)
			continue
		case last == nil || told[ev.slept]:
			continue
		}
		var over []uint64
		for id, p := range e.pending {
			if p.timer != nil && !told[id] && !p.due.After(last.due) {
				over = append(over, id)
				told[id] = true
			}
		}
		slices.SortFunc(over, func(a, b uint64) int {
			return cmp.Or(e.pending[a].due.Compare(e.pending[b].due), cmp.Compare(a, b))
		})
		for _, id := range over {
			out = append(out, event{slept: id})
		}
	}
	return out
}

// settle settles the promise that an event is about.
func (e *engine) settle(ev event) *sandbox.Failure {
	id := ev.slept
	if ev.reply != nil {
		id = ev.reply.ID
	}
	p := e.pending[id]
	if p == nil || (p.ask == nil) != (ev.reply == nil) {
		return nil
	}
	delete(e.pending, id)
	defer e.release(p)
	var done bool
	switch {
	case ev.reply == nil:
		e.sleeps--
		done = e.native.call(p.resolve)
	case ev.reply.Err != nil:
		e.asking--
		text, err := json.Marshal(ev.reply.Err)
		if err != nil {
			return internalFailure(err)
		}
		done = e.reject(p, text)
	default:
		e.asking--
		done = e.resolve(p, ev.reply.Value)
	}
	if err := e.flush(); err != nil {
		return internalFailure(err)
	}
	switch {
	case e.overtime.Load():
		return e.timeout(nil)
	case !done: // nothing else keeps a promise from being settled
		return memoryFailure(e.heapText())
	}
	return nil
}

// resolve gives a call its value; false: there was no memory for that.
func (e *engine) resolve(p *pending, value []byte) bool {
	if len(value) == 0 {
		return e.native.call(p.resolve)
	}
	v := e.native.parse(bytes.ToValidUTF8(value, []byte("\ufffd")))
	if !e.native.failed() {
		defer e.native.free(v)
		return e.native.call(p.resolve, v)
	}
	unread := lib.XJS_GetException(e.native.tls, e.native.context)
	defer e.native.free(unread)
	return e.native.call(e.lost, p.reject, p.stack, lib.XNewInt32(e.native.tls, e.native.context, 0), unread)
}

// reject gives a call its error, as JSON; false: there was no memory for that.
func (e *engine) reject(p *pending, text []byte) bool {
	t := e.native.string(text)
	if e.native.failed() {
		e.native.drop()
		return false
	}
	defer e.native.free(t)
	return e.native.call(e.lost, p.reject, p.stack, t)
}

// release lets go of what was held for a promise.
func (e *engine) release(p *pending) {
	for _, v := range []lib.TJSValue{p.resolve, p.reject, p.stack} {
		e.native.free(v)
	}
}
