//go:build unix

package soak_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	workers = 8 // of a client, each with one call at a time
	wells   = 6 // servers that do no wrong
	rares   = 4 // servers that are asked so seldom that others have taken their place
)

// kind is one kind of call.
type kind struct {
	// share is how many of ten thousand calls are of this kind, in a short run brief,
	// which has to see all kinds within seconds.
	share, brief int
	tool         string // of metamcp
	// args says what to call, given a number by chance and the request's name.
	args func(n int, name string) string
	// well is set where the answer must be a result, with the request's name in it
	// where echo is set.
	well, echo bool
	cancel     bool // right after it was sent
}

// load is the mix of calls. Long runs are for many calls, and have a start of a
// server for some two hundred of them.
func load(short bool) []kind {
	call := func(server string, of int, tool, args string) func(int, string) string {
		return func(n int, name string) string {
			to := server
			if of > 0 {
				to += strconv.Itoa(n % of)
			}
			if args == "" {
				return fmt.Sprintf(`{"server":%q,"tool":%q,"args":{"text":"I am %s"}}`, to, tool, name)
			}
			return fmt.Sprintf(`{"server":%q,"tool":%q,"args":%s}`, to, tool, args)
		}
	}
	const mcpCall = "mcp_call"
	mix := []kind{
		{share: 9275, brief: 6200, tool: mcpCall, args: call("well", wells, "echo", ""), well: true, echo: true},
		{share: 300, brief: 800, tool: mcpCall, args: call("own", 0, "echo", ""), well: true, echo: true},
		{share: 100, brief: 600, tool: mcpCall, args: call("well", wells, "big", `{"bytes":100000}`), well: true},
		{share: 80, brief: 300, tool: mcpCall, args: call("flooding", 0, "echo", "")},
		{share: 80, brief: 300, tool: "mcp_discover", args: func(int, string) string { return `{"query":"add two numbers"}` }, well: true},
		{share: 30, brief: 200, tool: "mcp_execute", args: func(n int, name string) string {
			return fmt.Sprintf(`{"code":"return await servers.well%d.echo({text: 'I am %s'})"}`, n%wells, name)
		}, well: true, echo: true},
		{share: 30, brief: 400, tool: mcpCall, args: call("brief", 0, "echo", "")},
		{share: 30, brief: 300, tool: mcpCall, args: call("rare", rares, "echo", "")},
		{share: 5, brief: 200, tool: mcpCall, args: call("crashing", 0, "crash", `{}`)},
		{share: 5, brief: 200, tool: mcpCall, args: call("slow", 0, "echo", "")},
		{share: 65, brief: 500, tool: mcpCall, args: call("well", wells, "slow", `{"ms":60000}`), cancel: true},
	}
	if short {
		for i := range mix {
			mix[i].share = mix[i].brief
		}
	}
	return mix
}

// tally is what the clients of a run count together.
type tally struct {
	mix    []kind
	most   uint64 // calls; then it is enough
	enough context.CancelFunc

	came, calls, well, ill atomic.Uint64

	mu   sync.Mutex
	took []float32 // milliseconds, of calls to well servers since the last sample
	said string    // by the last of those that went ill
}

func (t *tally) lastIll() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said
}

// pick chooses a kind by its share.
func (t *tally) pick(random *rand.Rand) *kind {
	all := 0
	for i := range t.mix {
		all += t.mix[i].share
	}
	at := random.IntN(all)
	for i := range t.mix {
		if at -= t.mix[i].share; at < 0 {
			return &t.mix[i]
		}
	}
	panic("the shares have changed")
}

// count takes note of an answer to a call that began then.
func (t *tally) count(k *kind, name string, answer []byte, began time.Time) {
	if t.calls.Add(1) >= t.most {
		t.enough()
	}
	if !k.well {
		return
	}
	failed := bytes.Contains(answer, []byte(`"isError":true`)) || bytes.Contains(answer, []byte(`"error":`)) ||
		k.echo && !bytes.Contains(answer, []byte("I am "+name))
	t.mu.Lock()
	defer t.mu.Unlock()
	if failed {
		t.ill.Add(1)
		t.said = string(answer)
		return
	}
	t.well.Add(1)
	if k.echo {
		t.took = append(t.took, float32(time.Since(began).Microseconds())/1000)
	}
}
