package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/integration/web"
	"github.com/metamcp/metamcp/messages"
)

// stream is an open stream of events.
type stream struct {
	t      *testing.T
	body   io.Closer
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// event is one of them.
type event struct {
	Name    string `json:"-"`
	Records []messages.TraceRecord
	Dropped uint64
	Next    uint64
	Calls   messages.CallCounts
}

func (c *client) stream(query string) *stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	answer, err := c.http.Do(c.request("/api/events" + query).WithContext(ctx))
	if err != nil {
		cancel()
		c.t.Fatal(err)
	}
	s := &stream{t: c.t, body: answer.Body, lines: bufio.NewScanner(answer.Body), cancel: cancel}
	c.t.Cleanup(s.close)
	s.lines.Buffer(nil, 16<<20)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		c.t.Fatalf("the stream is answered with %s", answer.Status)
	}
	return s
}

func (s *stream) close() {
	s.cancel()
	_ = s.body.Close() // it was cancelled
}

// next returns the next event; false: the stream is over.
func (s *stream) next() (e event, more bool) {
	s.t.Helper()
	for s.lines.Scan() {
		if name, ok := strings.CutPrefix(s.lines.Text(), "event: "); ok {
			e.Name = name
		}
		if data, ok := strings.CutPrefix(s.lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				s.t.Fatalf("%s: %v", data, err)
			}
			return e, true
		}
	}
	return e, false
}

// await returns the first event of which ok is true.
func (s *stream) await(what string, ok func(*event) bool) event {
	s.t.Helper()
	for {
		e, more := s.next()
		if !more {
			s.t.Fatalf("the stream ended before %s: %v", what, s.lines.Err())
		}
		if ok(&e) {
			return e
		}
	}
}

// record returns the batch with a record of a type.
func (s *stream) record(kind string) event {
	s.t.Helper()
	return s.await("the record "+kind, func(e *event) bool {
		for i := range e.Records {
			if e.Records[i].Type == kind {
				return true
			}
		}
		return false
	})
}

func message(kind string, request uint64) messages.TraceRecord {
	return messages.TraceRecord{V: 2, Time: time.Now(), Kind: messages.TraceMessage, Type: kind, Request: request}
}

func awaitAttached(t *testing.T, h *fakeHost, now, ever int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if n, e := h.attached(); n != now || e != ever {
			return fmt.Errorf("%d watch, and %d ever did; want %d and %d", n, e, now, ever)
		}
		return nil
	})
}

func TestTheTraceIsAttachedOnlyWhileSomebodyLooks(t *testing.T) {
	h := newFakeHost()
	c := visit(t, serve(t, web.Options{Host: h}))
	if status, _ := c.get("/"); status != http.StatusOK {
		t.Fatal(status)
	}
	awaitAttached(t, h, 0, 0)
	first, second := c.stream(""), c.stream("")
	awaitAttached(t, h, 1, 1)
	first.close()
	h.say(t, message("A", 7))
	second.record("A")
	awaitAttached(t, h, 1, 1)
	second.close()
	awaitAttached(t, h, 0, 1)

	// What was seen is still there for who comes back.
	if status, body := c.get("/api/requests/7"); status != http.StatusOK || !strings.Contains(body, `"type":"A"`) {
		t.Errorf("the request is answered with %d: %s", status, body)
	}
	third := c.stream("")
	third.record("A")
	awaitAttached(t, h, 1, 2)
	h.say(t, message("B", 0))
	third.record("B")
}

func TestEventsChangeTheStatus(t *testing.T) {
	h := newFakeHost()
	c := visit(t, serve(t, web.Options{Host: h}))
	s := c.stream("")
	s.await("a status", func(e *event) bool { return e.Name == "status" })
	h.set(func() { h.status.Calls.Total = 5 })
	h.say(t, messages.TraceRecord{Kind: "transition", Time: time.Now()})
	s.await("the changed status", func(e *event) bool { return e.Name == "status" && e.Calls.Total == 5 })
}

func TestAFlood(t *testing.T) {
	h := newFakeHost()
	c := visit(t, serve(t, web.Options{Host: h}))
	s := c.stream("")
	s.await("a first event", func(*event) bool { return true })
	const many = 10_000
	for i := range many {
		h.say(t, message("Flood", 1+uint64(i)))
		if i%2 == 0 {
			h.say(t, message("InspectPool", 0)) // the page's own looks at the pool
		}
	}
	h.say(t, message("Last", 0))
	var shown, dropped uint64
	last := s.await("the last record", func(e *event) bool {
		if len(e.Records) > 500 {
			t.Errorf("a batch has %d records", len(e.Records))
		}
		for i := range e.Records {
			switch e.Records[i].Type {
			case "Flood":
				shown++
			case "InspectPool":
				t.Error("the page shows its own looks")
			}
		}
		dropped += e.Dropped
		return len(e.Records) > 0 && e.Records[len(e.Records)-1].Type == "Last"
	})
	if shown+dropped != many {
		t.Errorf("%d were shown and %d dropped, of %d", shown, dropped, many)
	}
	if status, _ := c.get(fmt.Sprint("/api/requests/", many)); status != http.StatusOK {
		t.Errorf("the last request is answered with %d", status)
	}
	if status, body := c.get("/api/requests/1"); status != http.StatusNotFound || !strings.Contains(body, "4096") {
		t.Errorf("the first request is answered with %d: %s", status, body)
	}
	s.close()
	// Who comes again gets what is new, and only that.
	again := c.stream(fmt.Sprint("?after=", last.Next))
	h.say(t, message("New", 0))
	for _, r := range again.record("New").Records {
		if r.Type == "Flood" || r.Type == "Last" {
			t.Errorf("%s comes twice", r.Type)
		}
	}
}

func TestPayloadsAreCut(t *testing.T) {
	h := newFakeHost()
	c := visit(t, serve(t, web.Options{Host: h}))
	s := c.stream("")
	long, err := json.Marshal(strings.Repeat("é", 10_000))
	if err != nil {
		t.Fatal(err)
	}
	h.say(t, messages.TraceRecord{Kind: messages.TraceRequest, Type: "Long", Request: 1, Payload: long})
	for _, r := range s.record("Long").Records {
		if len(r.Payload) > 20_000 || r.Type == "Long" && !json.Valid(r.Payload) {
			t.Errorf("the payload has %d bytes", len(r.Payload))
		}
	}
}

func TestTooManyPages(t *testing.T) {
	h := newFakeHost()
	c := visit(t, serve(t, web.Options{Host: h}))
	var all []*stream
	for range web.MaxStreams {
		all = append(all, c.stream(""))
	}
	status, body := c.get("/api/events")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "TOO_MANY") {
		t.Errorf("one more is answered with %d: %s", status, body)
	}
	// A page that wants to know why it gets no stream asks like this.
	if status, _ := c.get("/api/events?after=why"); status != http.StatusServiceUnavailable {
		t.Errorf("the question why is answered with %d", status)
	}
	awaitAttached(t, h, 1, 1)
	all[0].close()
	testkit.Eventually(t, patience, func() error {
		answer, err := c.http.Do(c.request("/api/events"))
		if err != nil {
			return err
		}
		_ = answer.Body.Close() // an endless stream
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}

// A browser that reads nothing is dropped, and what it occupied is free again.
func TestADeadBrowser(t *testing.T) {
	h := newFakeHost()
	s := serve(t, web.Options{Host: h, WriteTimeout: 50 * time.Millisecond})
	c := visit(t, s)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // the server has cut it off
	if err := c.request("/api/events").Write(conn); err != nil {
		t.Fatal(err)
	}
	awaitAttached(t, h, 1, 1)
	long, err := json.Marshal(strings.Repeat("x", 4000))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for h.say(t, messages.TraceRecord{Kind: messages.TraceMessage, Payload: long}) {
		if time.Now().After(deadline) {
			t.Fatal("it is still served")
		}
	}
	awaitAttached(t, h, 0, 1)
}

func TestCloseEndsOpenStreams(t *testing.T) {
	h := newFakeHost()
	h.hang = make(chan struct{}, 1)
	s := serve(t, web.Options{Host: h})
	c := visit(t, s)
	streams := []*stream{c.stream(""), c.stream("")}
	searched := make(chan int, 1)
	go func() {
		answer, err := c.http.Do(c.request("/api/search?q=x"))
		if err != nil {
			searched <- 0
			return
		}
		_ = answer.Body.Close() // only its status matters
		searched <- answer.StatusCode
	}()
	<-h.hang
	closePage(t, s)
	for _, st := range streams {
		for more := true; more; {
			_, more = st.next()
		}
	}
	if status := <-searched; status != http.StatusServiceUnavailable {
		t.Errorf("the search is answered with %d", status)
	}
	awaitAttached(t, h, 0, 1)
	closePage(t, s)
}

func TestAHostThatEnds(t *testing.T) {
	h := newFakeHost()
	c := visit(t, serve(t, web.Options{Host: h}))
	s := c.stream("")
	s.await("a status", func(e *event) bool { return e.Name == "status" })
	h.end()
	s.await("the end", func(e *event) bool { return e.Name == "over" })
	if _, more := s.next(); more {
		t.Error("the stream goes on")
	}
	c.stream("").await("the end", func(e *event) bool { return e.Name == "over" })
}

func TestQuestions(t *testing.T) {
	h := newFakeHost()
	c := visit(t, serve(t, web.Options{Host: h}))
	long := strings.Repeat("x", 1001)
	tests := []struct {
		path   string
		status int
		want   string
	}{
		{"/api/search?q=add+a+note&server=notes", 200, `"server":"notes","tool":"add a note"`},
		{"/api/search?q=", 400, "BAD_REQUEST"},
		{"/api/search?q=" + long, 400, "BAD_REQUEST"},
		{"/api/search?q=x&server=" + long, 400, "BAD_REQUEST"},
		{"/api/tool?server=a&tool=b", 200, `{"definition":{"name":"b"}}`},
		{"/api/tool?server=unknown&tool=b", 404, `"code":"SERVER_NOT_FOUND","message":"no server unknown","hint":"look at the list"`},
		{"/api/tool?server=a", 400, "BAD_REQUEST"},
		{"/api/requests/1", 404, "nothing is known of request 1"},
		{"/api/requests/0", 400, "BAD_REQUEST"},
		{"/api/requests/x", 400, "BAD_REQUEST"},
		{"/api/events?after=x", 400, "BAD_REQUEST"},
		{"/api/nothing", 404, "NOT_FOUND"},
	}
	for _, tt := range tests {
		if status, body := c.get(tt.path); status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%.60s is answered with %d: %s", tt.path, status, body)
		}
	}
	h.set(func() { h.fail = errors.New("out of order") })
	for _, path := range []string{"/api/search?q=x", "/api/events"} {
		if status, body := c.get(path); status != http.StatusInternalServerError || !strings.Contains(body, "out of order") {
			t.Errorf("%s is answered with %d: %s", path, status, body)
		}
	}
}

func TestTooManySearches(t *testing.T) {
	h := newFakeHost()
	h.hang = make(chan struct{}, 8)
	s := serve(t, web.Options{Host: h})
	c := visit(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 4)
	for range 4 {
		go func() {
			answer, err := c.http.Do(c.request("/api/search?q=x").WithContext(ctx))
			if err == nil {
				_ = answer.Body.Close() // it was cancelled
			}
			ended <- struct{}{}
		}()
		<-h.hang
	}
	if status, body := c.get("/api/search?q=x"); status != http.StatusServiceUnavailable || !strings.Contains(body, "TOO_MANY") {
		t.Errorf("one more is answered with %d: %s", status, body)
	}
	cancel()
	for range 4 {
		<-ended
	}
}
