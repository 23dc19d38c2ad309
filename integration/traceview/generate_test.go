package traceview_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// epoch is when the invented traces begin.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// generator invents a trace of version 2, as a host would write it.
type generator struct {
	records []messages.TraceRecord
	span    uint64
	request uint64
	now     time.Duration
}

// message adds one message with a parent span and returns its span. Times are
// since the epoch.
func (g *generator) message(parent uint64, from, to, kind, before, after string, sent, wait, ran time.Duration) uint64 {
	g.span++
	g.records = append(g.records, messages.TraceRecord{
		V: 2, Time: epoch.Add(sent), Kind: messages.TraceMessage, Request: g.request, Span: g.span, Parent: parent,
		From: from, To: to, Type: kind, Before: before, After: after, WaitNs: wait.Nanoseconds(), RanNs: ran.Nanoseconds(),
	})
	return g.span
}

func (g *generator) event(span uint64, kind, to, detail string, at time.Duration) {
	g.records = append(g.records, messages.TraceRecord{V: 2, Time: epoch.Add(at), Kind: kind, Request: g.request, Span: span, To: to, Detail: detail})
}

func (g *generator) start() {
	g.records = append(g.records, messages.TraceRecord{V: 2, Time: epoch.Add(g.now), Kind: messages.TraceStart, Detail: "metamcp 1.0, pid 4711"})
}

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// call adds a request to a server that is not running: it is started first.
// Some of the records name no request, as those behind the pool's grant: the
// spans tie them to it.
func (g *generator) call(id uint64, server, tool, outcome string) {
	session, pool := "metamcp/session/1", "metamcp/pool"
	breaker := pool + "/breaker/" + server + "~1"
	conn := breaker + "/conn#1"
	t := g.now
	g.request = id
	g.records = append(g.records, messages.TraceRecord{V: 2, Time: epoch.Add(t), Kind: messages.TraceRequest, Request: id, To: session, Server: server, Tool: tool, Bytes: 17})
	g.message(0, "", session, "sessionCall", "", "", t+2*us, 3*us, 1*us)
	call := g.message(0, "", breaker, "Call", "closed", "closed", t+12*us, 4*us, 60*us)
	g.message(call, breaker, pool, "Acquire", "", "", t+20*us, 2*us, 9*us)
	g.event(g.span, "lease", pool, server+" #1 after 0s", t+23*us)
	g.request = 0
	granted := g.message(g.span, pool, breaker, "Granted", "closed", "closed", t+33*us, 45*us, 30*us)
	connect := g.message(granted, breaker, conn, "Connect", "IDLE", "CONNECTING", t+85*us, 2*us, 12*us)
	g.event(connect, "transition", conn, "IDLE → CONNECTING (connect)", t+90*us)
	g.request = id
	started := g.message(0, "", conn, "started", "CONNECTING", "CONNECTING", t+5*ms, 9*us, 28*us)
	g.event(started, "spawn", conn, "pid 4712", t+5*ms+12*us)
	hello := g.message(0, "", conn, "Frame", "CONNECTING", "ACTIVE", t+13*ms, 8*us, 140*us)
	g.event(hello, "transition", conn, "CONNECTING → ACTIVE (handshake-done)", t+13*ms+60*us)
	g.message(hello, conn, breaker, "ConnectionReady", "closed", "closed", t+13*ms+80*us, 4*us, 40*us)
	g.event(g.span, "ready", breaker, "", t+13*ms+90*us)
	g.message(g.span, breaker, conn, "Call", "ACTIVE", "ACTIVE", t+13*ms+100*us, 2*us, 14*us)
	frame := g.message(0, "", conn, "Frame", "ACTIVE", "IDLE", t+21*ms, 3*us, 90*us)
	g.message(frame, conn, session, "Answer", "", "", t+21*ms+10*us, 2*us, 20*us)
	g.message(frame, conn, breaker, "Release", "closed", "closed", t+21*ms+40*us, 2*us, 6*us)
	g.records = append(g.records, messages.TraceRecord{
		V: 2, Time: epoch.Add(t + 21*ms + 30*us), Kind: messages.TraceAnswer, Request: id, To: session,
		RanNs: (21*ms + 30*us).Nanoseconds(), Outcome: outcome, Server: server, Tool: tool, Bytes: 52,
	})
	g.request = 0
	g.now += 30 * ms
}

// own adds work of the host that no request caused.
func (g *generator) own() {
	g.message(0, "", "metamcp/index", "Listing", "", "", g.now, 70*us, 200*us)
	g.now += ms
}

func (g *generator) text(tb testing.TB) []byte {
	tb.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, r := range g.records {
		if err := enc.Encode(r); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Bytes()
}

// sample is a trace with a good call, a failed one and the host's own work.
func sample() *generator {
	g := &generator{}
	g.start()
	g.own()
	g.call(1, "demo", "echo", "ok")
	g.call(2, "github", "list_issues", "TOOL_EXECUTION_TIMEOUT")
	return g
}
