package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// TestFullClientIsNotRead: a client that sends calls and reads nothing gets only so
// many carried out; once it reads, it gets all of them.
func TestFullClientIsNotRead(t *testing.T) {
	const all, size = 200, 1 << 20
	result := json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
	var begun, got, most atomic.Int64
	var peer *Peer // set before the first line is read
	wasFull, told := make(chan struct{}, all), make(chan struct{}, all)
	engine := &fakeEngine{call: func(r Request) {
		most.Store(max(most.Load(), begun.Add(1)-got.Load())) // the reader alone calls it
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: result})
		if peer.Full() {
			wasFull <- struct{}{}
		}
	}}
	s := start(t, Options{Engine: engine, Ready: func(p *Peer) { peer = p }, Room: func() { told <- struct{}{} }})
	go func() {
		for i := range all {
			if _, err := fmt.Fprintf(s.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"a","tool":"t"}}}`+"\n", i); err != nil {
				t.Error(err)
			}
		}
		_ = s.in.Close()
	}()
	select {
	case <-wasFull:
	case <-time.After(patience):
		t.Fatal("a client that reads nothing is never full")
	}
	for i := range all {
		line, err := s.lines.ReadBytes('\n')
		if err != nil || len(line) < size {
			t.Fatalf("answer %d: %d bytes, %v", i, len(line), err)
		}
		got.Add(1)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
	// What waits, what the pipe and the client's buffer hold, and one on its way.
	if most := most.Load(); most > fullAt/size+5 {
		t.Errorf("%d calls were begun whose answers nobody had read", most)
	}
	if len(told) == 0 || peer.Full() {
		t.Errorf("there was room %d times, and the client is full: %v", len(told), peer.Full())
	}
}

func TestOutputOfStuckClientEnds(t *testing.T) {
	_, w := pipe(t)
	var unread Unread
	o := newOutput(w, &unread, nil)
	if err := o.Write(make([]byte, fullAt+1<<20)); err != nil {
		t.Fatal(err)
	}
	room := o.Room()
	if room == nil || !o.Full() {
		t.Fatal("the client is not full")
	}
	o.mu.Lock() // only now, or its time might be over before it was seen to be full
	o.patience = 20 * time.Millisecond
	o.stuck.Reset(o.patience)
	o.mu.Unlock()
	for _, over := range []<-chan struct{}{o.Failed(), room} {
		select {
		case <-over:
		case <-time.After(patience):
			t.Fatal("a client that reads nothing is waited for")
		}
	}
	if err := o.Close(0); !errors.Is(err, ErrNotReading) || !strings.Contains(err.Error(), "read nothing for 20ms") {
		t.Errorf("Close: %v", err)
	}
	if n := unread.total.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestWhatAllClientsLeaveUnreadIsBounded: where very much waits for all together, less
// makes a client full, and in the end the session goes that has most.
func TestWhatAllClientsLeaveUnreadIsBounded(t *testing.T) {
	const clients, part = 300, 4 << 20
	var unread Unread
	line := make([]byte, part) // a large one is not copied
	outputs := make([]*Output, clients)
	for i := range outputs {
		_, w := pipe(t)
		outputs[i] = newOutput(w, &unread, nil)
	}
	greedy := outputs[0]
	for range 3 {
		if err := greedy.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if greedy.Full() {
		t.Error("full with 12 MiB while nothing else waits")
	}
	last := 0
	for last < clients-1 && greedy.Err() == nil {
		last++
		if err := outputs[last].Write(line); err != nil {
			t.Fatalf("client %d: %v", last, err)
		}
		if n := unread.total.Load(); n > maxUnread {
			t.Fatalf("%d MiB wait", n>>20)
		}
	}
	if outputs[1].Full() || !outputs[last].Full() {
		t.Errorf("the first is full: %v, and the last, in the crowd: %v", outputs[1].Full(), outputs[last].Full())
	}
	if err := greedy.Err(); !errors.Is(err, ErrNotReading) || !strings.Contains(err.Error(), "more than for any other") {
		t.Errorf("the one with most: %v", err)
	}
	for i, o := range outputs {
		if err := o.Close(0); err == nil && i <= last {
			t.Errorf("client %d lost everything without an error", i)
		}
	}
	if n := unread.total.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestOutputHasRoomAgain: who reads is not full any more, and everything comes.
func TestOutputHasRoomAgain(t *testing.T) {
	r, w := pipe(t)
	told := make(chan struct{}, 1)
	o := newOutput(w, new(Unread), func() bool {
		told <- struct{}{}
		return false
	})
	line := bytes.Repeat([]byte("x"), fullAt)
	for range 2 {
		if err := o.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if !o.Full() {
		t.Fatal("the client is not full")
	}
	if n, err := io.CopyN(io.Discard, r, 2*(fullAt+1)); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	select {
	case <-told:
	case <-time.After(patience):
		t.Fatal("nobody is told of the room")
	}
	if o.Full() || o.Room() != nil {
		t.Error("the client has read everything and is full")
	}
	closeOutput(t, o)
}
