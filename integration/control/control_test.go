package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

func TestEndpoints(t *testing.T) {
	h := newFakeHost()
	h.status.Pool.Size = 7
	s := start(t, control.Options{
		Host: h, Name: "work", Version: "1.2.3", Configs: []string{"/c.json"},
		Handlers: map[string]http.Handler{"GET /v1/more/{x}": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-More", r.PathValue("x")) })},
	})
	c := dial(t, s)
	for _, tt := range []struct {
		method, path string
		status       int
		code         string // of an error
		holds        string
	}{
		{"GET", "/v1/status", 200, "", `"name":"work"`},
		{"GET", "/v1/status", 200, "", `"size":7`},
		{"GET", "/v1/status", 200, "", `"version":"1.2.3"`},
		{"GET", "/v1/status?actors=1", 200, "", `"id":"metamcp/pool"`},
		{"GET", "/v1/status?actors=maybe", 400, control.CodeBadRequest, ""},
		{"POST", "/v1/status", 404, control.CodeNotFound, ""},
		{"GET", "/v1/more/this", 200, "", ""},
		{"GET", "/v2/status", 404, control.CodeNotFound, ""},
		{"GET", "/v1/logs/unknown", 404, "SERVER_NOT_FOUND", ""},
		{"GET", "/v1/logs/x?lines=-1", 400, control.CodeBadRequest, ""},
		{"GET", "/v1/logs/x?follow=perhaps", 400, control.CodeBadRequest, ""},
		{"GET", "/v1/logs/x", 200, "", ""},
		{"GET", "/v1/trace", 400, control.CodeBadRequest, ""},
		{"GET", "/healthz", 200, "", "ok"},
		{"GET", "/readyz", 200, "", "ready"},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			var body io.Reader
			if tt.path == "/v1/trace" {
				body = strings.NewReader("a body that no stream takes")
			}
			resp, err := c.Do(t.Context(), tt.method, tt.path, body)
			if tt.code != "" {
				var e *control.Error
				if !errors.As(err, &e) || e.Status != tt.status || e.Code != tt.code || e.Message == "" || e.Hint == "" {
					t.Fatalf("error %#v, want %d %s with message and hint", err, tt.status, tt.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if strings.HasPrefix(tt.path, "/v1/more/") && resp.Header.Get("X-More") != "this" {
				t.Errorf("the handler of others did not answer: %v", resp.Header)
			}
			if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(text), tt.holds) {
				t.Errorf("%d %q, %v; want %d with %q", resp.StatusCode, text, err, tt.status, tt.holds)
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	h := newFakeHost()
	c := dial(t, start(t, control.Options{Host: h}))
	for _, tt := range []struct {
		name  string
		set   func()
		ready bool
	}{
		{"running", func() {}, true},
		{"draining", func() { h.status.Draining = true }, false},
		{"failing", func() { h.status.Draining, h.fail = false, errors.New("no answer") }, false},
	} {
		h.set(tt.set)
		resp, err := c.Do(t.Context(), "GET", "/readyz", nil)
		if err == nil {
			resp.Body.Close()
		}
		var e *control.Error
		if (err == nil) != tt.ready || err != nil && (!errors.As(err, &e) || e.Status != 503) {
			t.Errorf("%s: %v; want ready: %t", tt.name, err, tt.ready)
		}
	}
	h.set(func() {
		if h.looks > 0 {
			t.Errorf("all servers were described %d times", h.looks)
		}
	})
}

// An endpoint that cannot be is an error and not a panic.
func TestBadOptions(t *testing.T) {
	h := newFakeHost()
	none := http.NotFoundHandler()
	for name, o := range map[string]control.Options{
		"no host":     {StateDir: t.TempDir()},
		"no folder":   {Host: h},
		"name":        {Host: h, StateDir: t.TempDir(), Name: "a\nb"},
		"pattern":     {Host: h, StateDir: t.TempDir(), Handlers: map[string]http.Handler{"GET  {": none}},
		"own pattern": {Host: h, StateDir: t.TempDir(), Handlers: map[string]http.Handler{"GET /v1/status": none}},
		"file":        {Host: h, StateDir: put(t, t.TempDir(), "file", "")},
	} {
		if s, err := control.Serve(o); err == nil {
			t.Errorf("%s: no error", name)
			end(t, s)
		}
	}
}

// Fifty clients at a time, each with a connection of its own.
func TestManyClients(t *testing.T) {
	h := newFakeHost()
	h.status.Sessions = 3
	s := start(t, control.Options{Host: h})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			c, err := control.Dial(s.Info())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for range 5 {
				if st, err := c.Status(t.Context(), true); err != nil || st.Sessions != 3 || len(st.Actors) != 1 {
					t.Errorf("status %+v, %v", st, err)
				}
			}
		})
	}
	all.Wait()
}

func TestTrace(t *testing.T) {
	h := newFakeHost()
	s := start(t, control.Options{Host: h, Version: "1.2.3"})
	c := dial(t, s)
	h.records <- messages.TraceRecord{V: messages.TraceVersion, Kind: messages.TraceStart} // the server's own counts
	for i := range 3 {
		h.records <- messages.TraceRecord{V: messages.TraceVersion, Kind: messages.TraceMessage, Span: uint64(i + 1)}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	for rec, err := range c.Trace(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(rec.Kind, rec.Span, rec.Detail))
		if rec.Span == 3 {
			close(h.records) // the host ends
		}
	}
	want := fmt.Sprintf("start0metamcp 1.2.3, pid %d|message1|message2|message3", s.Info().PID)
	if strings.Join(got, "|") != want || ctx.Err() != nil {
		t.Errorf("records %q, want %q; %v", got, want, ctx.Err())
	}
}

// The viewer after the last place is told so, and gets in when one has left.
func TestStreamsAreBounded(t *testing.T) {
	h := newFakeHost()
	c := dial(t, start(t, control.Options{Host: h}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var open []io.Closer
	for range control.MaxStreams {
		resp, err := c.Do(ctx, "GET", "/v1/trace", nil)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, resp.Body)
	}
	_, err := c.Logs(ctx, "x", control.LogOptions{})
	var e *control.Error
	if !errors.As(err, &e) || e.Code != control.CodeTooManyStreams {
		t.Fatalf("one too many: %v", err)
	}
	_ = open[0].Close()
	testkit.Eventually(t, patience, func() error {
		text, err := c.Logs(ctx, "x", control.LogOptions{})
		if err == nil {
			_ = text.Close()
		}
		return err
	})
	for _, o := range open {
		_ = o.Close()
	}
}

// A viewer that stops reading is dropped, and the host ends its part.
func TestSlowViewerIsDropped(t *testing.T) {
	h := newFakeHost()
	c := dial(t, start(t, control.Options{Host: h, WriteTimeout: 50 * time.Millisecond}))
	resp, err := c.Do(t.Context(), "GET", "/v1/trace", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	big := messages.TraceRecord{Kind: messages.TraceMessage, Detail: strings.Repeat("x", 64<<10)}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for h.watched() > 0 {
		select {
		case h.records <- big:
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("the viewer that reads nothing is still there")
		}
	}
}

// Close ends open streams and hanging requests, and waits for them.
func TestCloseWithOpenStreams(t *testing.T) {
	h := newFakeHost()
	dir := t.TempDir()
	s := start(t, control.Options{Host: h, StateDir: dir})
	c := dial(t, s)
	var viewers sync.WaitGroup
	attached := make(chan struct{}, 10)
	for range 10 {
		viewers.Go(func() {
			for rec, err := range c.Trace(t.Context()) {
				if err != nil {
					t.Errorf("a host that ends in order: %v", err)
				}
				if rec.Kind == messages.TraceStart {
					attached <- struct{}{}
				}
			}
		})
	}
	for range 10 {
		<-attached
	}
	text, err := c.Logs(t.Context(), "x", control.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	h.set(func() { h.hang = true })
	viewers.Go(func() {
		_, err := c.Status(t.Context(), false)
		var e *control.Error
		if !errors.As(err, &e) || e.Code != control.CodeShuttingDown {
			t.Errorf("status of a host that ends: %v", err)
		}
	})
	<-h.asked
	end(t, s)
	viewers.Wait()
	if rest, err := io.ReadAll(text); err != nil || len(rest) > 0 {
		t.Errorf("the log ended with %q, %v", rest, err)
	}
	if _, err := control.Dial(s.Info()); err == nil {
		t.Error("the socket still takes connections")
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	end(t, s) // once more does no harm
}

// A handler that ignores its end is named, after the time that was given.
func TestCloseIsBounded(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{})
	s, err := control.Serve(control.Options{Host: newFakeHost(), StateDir: t.TempDir(), Handlers: map[string]http.Handler{
		"GET /stuck": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(entered)
			<-release
		}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, s)
	asked := make(chan error, 1)
	go func() {
		resp, err := c.Do(context.Background(), "GET", "/stuck", nil)
		if err == nil {
			resp.Body.Close()
		}
		asked <- err
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v, want that the time was over", err)
	}
	close(release)
	if err := <-asked; err == nil {
		t.Error("the request that was cut off succeeded")
	}
}

// The error of an endpoint is what docs/CONTROL.md promises.
func TestErrorOnTheWire(t *testing.T) {
	raw, err := json.Marshal(&control.Error{Status: 404, Code: "X", Message: "m", Hint: "h", Cause: io.EOF})
	if err != nil || string(raw) != `{"code":"X","message":"m","hint":"h"}` {
		t.Errorf("%s, %v", raw, err)
	}
}
