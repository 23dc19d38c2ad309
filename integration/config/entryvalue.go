package config

import (
	"path"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/tailscale/hujson"
)

// ranged reads a whole number within bounds, both inclusive.
func (e *entry) ranged(name string, v *hujson.Value, low, high int64, unit string) (int64, bool) {
	n, ok := e.whole(e.doc, name, v)
	if ok && (n < low || n > high) {
		return 0, e.bad(e.doc, v, "", "%s: %d is not in the range from %d to %d%s", name, n, low, high, unit)
	}
	return n, ok
}

func (e *entry) millis(name string, v *hujson.Value, to *time.Duration) bool {
	key := &entryTable[entryIndex[name]]
	n, ok := e.ranged(name, v, key.Min, key.Max, " milliseconds")
	if ok {
		*to = time.Duration(n) * time.Millisecond
	}
	return ok
}

// defaultAsks is what a server may ask clients for where its entry does not say.
func defaultAsks() messages.ClientCan {
	return messages.ClientCan{Form: true, URL: true, Sampling: true, SamplingTools: true, SamplingContext: true}
}

// ask reads what the server may ask clients for, roots apart.
func (e *entry) ask(v *hujson.Value) {
	asks, all := &e.spec.Asks, defaultAsks()
	switch v.Value.Kind() {
	case 't':
		*asks = all
	case 'f':
	case '[':
		for _, kind := range e.stringList(e.doc, "ask", v, e.ex) {
			switch kind {
			case "form":
				asks.Form = true
			case "url":
				asks.URL = true
			case "sampling":
				asks.Sampling, asks.SamplingTools, asks.SamplingContext = true, true, true
			default:
				e.bad(e.doc, v, suggestion(kind, askKinds), "ask: expected form, url and sampling, found %s", quote(kind))
			}
		}
	default:
		e.mismatch(e.doc, "ask", v, "a boolean or an array of form, url and sampling")
	}
}

var askKinds = []string{"form", "url", "sampling"}

func (e *entry) inherit(v *hujson.Value) {
	switch v.Value.Kind() {
	case 't':
		e.more.all = true
	case 'f':
	case '[':
		e.more.names = e.stringList(e.doc, "inheritEnv", v, e.ex)
		for _, n := range e.more.names {
			if _, err := path.Match(n, ""); err != nil || n == "" {
				e.bad(e.doc, v, "write names, with * and ? for other characters", "inheritEnv: %s is not a pattern", quote(n))
			}
		}
	default:
		e.mismatch(e.doc, "inheritEnv", v, "a boolean or an array of names")
	}
}

// transportName reads type or transportType; both may be there and must agree.
func (e *entry) transportName(name string, v *hujson.Value) {
	text, ok := e.str(e.doc, name, v, e.ex)
	if !ok {
		return
	}
	var kind string
	switch text {
	case "stdio", "http", "sse":
		kind = text
	case "streamable-http", "streamableHttp":
		kind = "http"
	default:
		names := []string{"stdio", "http", "streamable-http", "sse"}
		e.bad(e.doc, v, suggestion(text, names), "%s: expected stdio, http, streamable-http or sse, found %s", name, quote(text))
		return
	}
	if e.transport != "" && e.transport != kind {
		e.bad(e.doc, v, "keep one of them", "type and transportType contradict each other")
	}
	e.transport, e.where = kind, v
}

func (e *entry) headers(v *hujson.Value) {
	pairs := e.stringMap(e.doc, "headers", v, e.ex)
	e.spec.Headers = make(map[string]string, len(pairs))
	spelled := make(map[string]string, len(pairs)) // by what HTTP takes for the same
	for _, p := range pairs {
		switch {
		case !isToken(p.key):
			e.bad(e.doc, v, "", "headers: %q is no name for a header", shorten(p.key))
		case strings.ContainsAny(p.value, "\r\n"):
			e.bad(e.doc, v, "a variable may hold a line feed at its end", "headers.%s: its value holds a line break", p.key)
		}
		if other, twice := spelled[strings.ToLower(p.key)]; twice {
			delete(e.spec.Headers, other)
			e.warn(p.at, "the last one counts", "headers: %s and %s are one header", shorten(other), shorten(p.key))
		}
		spelled[strings.ToLower(p.key)] = p.key
		e.spec.Headers[p.key] = p.value
	}
}

// isToken says whether s may name an HTTP header.
func isToken(s string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return s != "" && strings.Trim(s, allowed) == ""
}

func (e *entry) lifecycle(v *hujson.Value) {
	switch value := v.Value.(type) {
	case *hujson.Object:
		mode := false
		for i := range value.Members {
			m := &value.Members[i]
			switch name := memberName(m); name {
			case "mode":
				mode = true
				e.lifecycleMode("lifecycle.mode", &m.Value)
			case "idleTimeoutMs":
				if n, ok := e.ranged("lifecycle.idleTimeoutMs", &m.Value, 0, week, " milliseconds"); ok {
					e.spec.IdleTimeout = time.Duration(n) * time.Millisecond
				}
			default:
				e.warn(&m.Name, suggestion(name, []string{"mode", "idleTimeoutMs"}), "lifecycle.%s is not known and ignored", shorten(name))
			}
		}
		if !mode {
			e.bad(e.doc, v, `write {"mode": "keep-alive", "idleTimeoutMs": 600000}`, "lifecycle: mode is missing")
		}
	default:
		if v.Value.Kind() != '"' {
			e.mismatch(e.doc, "lifecycle", v, `"keep-alive", "ephemeral" or an object`)
			return
		}
		e.lifecycleMode("lifecycle", v)
	}
}

// limits reads what each process may have.
func (e *entry) limits(v *hujson.Value) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		e.mismatch(e.doc, "limits", v, "an object")
		return
	}
	for i := range obj.Members {
		m := &obj.Members[i]
		switch name := memberName(m); name {
		case "memoryMB":
			if n, ok := e.ranged("limits.memoryMB", &m.Value, 1, maxMemoryMB, ""); ok {
				e.spec.Limits.MemoryMB = int(n)
			}
		case "processes":
			if n, ok := e.ranged("limits.processes", &m.Value, 1, maxProcesses, ""); ok {
				e.spec.Limits.Processes = int(n)
			}
		case "cpuSeconds":
			if n, ok := e.ranged("limits.cpuSeconds", &m.Value, 1, week/1000, ""); ok {
				e.spec.Limits.CPUSeconds = int(n)
			}
		default:
			e.bad(e.doc, &m.Name, suggestion(name, []string{"memoryMB", "processes", "cpuSeconds"}), "limits.%s is not known; there are limits.memoryMB, limits.processes and limits.cpuSeconds. A limit that nobody enforces would deceive, so the entry is not used", shorten(name))
		}
	}
}

func (e *entry) lifecycleMode(name string, v *hujson.Value) {
	text, ok := e.str(e.doc, name, v, e.ex)
	if !ok {
		return
	}
	switch mode := messages.LifecycleMode(text); mode {
	case messages.LifecycleKeepAlive, messages.LifecycleEphemeral:
		e.spec.Lifecycle = mode
	default:
		e.bad(e.doc, v, suggestion(text, []string{"keep-alive", "ephemeral"}), "%s: expected keep-alive or ephemeral, found %s", name, quote(text))
	}
}
