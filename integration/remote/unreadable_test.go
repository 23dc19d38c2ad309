package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

const (
	mark     = "\xef\xbb\xbf" // of the byte order
	latin    = `{"jsonrpc":"2.0","id":7,"result":{"text":"caf` + "\xe9" + `"}}`
	repaired = `{"text":"caf` + "\ufffd" + `"}`
	notJSON  = `{"jsonrpc":"2.0","id":7,"result":{"sum":NaN}}`
)

// An answer is not lost for a byte order mark in front of the text or bytes in it that
// are no UTF-8, and one that cannot be read ends its request at once, whether or not
// its stream goes on: the server is there, and has answered.
func TestAnswersThatAreNotAsTheyShould(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, result string }{
		{"as it should", called, `{"sum":3}`},
		{"a mark", mark + called, `{"sum":3}`},
		{"no UTF-8", latin, repaired},
		{"a mark and no UTF-8", mark + latin, repaired},
		{"the id as a string", `{"jsonrpc":"2.0","id":"7","result":{"sum":3}}`, `{"sum":3}`},
		{"the id as a float", `{"jsonrpc":"2.0","id":7.0,"result":{"sum":3}}`, `{"sum":3}`},
		{"a batch", mark + "[" + latin + "]", repaired},
		{"no JSON", notJSON, ""},
		{"neither", mark + strings.Replace(notJSON, "NaN", "\"\xff\",", 1), ""},
		{"the id at its end", `{"jsonrpc":"2.0","result":{"text":"a\qb"},"id":7}`, ""},
		{"no message", `{"id":7,"result":{"sum":3}}`, ""},
		{"no message, and the id as a string", `{"id":"7","result":{"sum":3}}`, ""},
		{"neither a result nor an error", `{"jsonrpc":"2.0","id":7}`, ""},
		{"a method as well", `{"jsonrpc":"2.0","id":7,"method":"m","result":{"sum":3}}`, ""},
		{"too large once it is repaired", `{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("\xff", 3000) + `"}`, "too large"},
	} {
		// A mark stands in front of the stream, not of an event.
		stream := func(text string) string {
			rest := strings.TrimPrefix(text, mark)
			return text[:len(text)-len(rest)] + "data: " + rest + "\n\n"
		}
		for way, h := range map[string]http.HandlerFunc{
			"body": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", jsonType)
				_, _ = io.WriteString(w, tt.text)
			},
			"stream": func(w http.ResponseWriter, _ *http.Request) { events(w, stream(tt.text)) },
			"stream that goes on": func(w http.ResponseWriter, r *http.Request) {
				events(w, stream(tt.text))
				<-r.Context().Done()
			},
			"old transport": nil,
		} {
			t.Run(tt.name+" "+way, func(t *testing.T) {
				t.Parallel()
				var k *talk
				if h != nil {
					s := newFake()
					s.on["tools/call"] = h
					k = open(t, messages.TransportHTTP, s, Options{MaxMessage: 4096, Log: slog.New(slog.DiscardHandler)})
				} else {
					k = open(t, messages.TransportSSE, oldServer("/post", func(out chan<- string, body string) {
						switch {
						case strings.Contains(body, `"initialize"`):
							out <- "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
						case strings.Contains(body, "tools/call"):
							out <- "data: " + strings.TrimPrefix(tt.text, mark) + "\n\n"
						case strings.Contains(body, "ping"):
							out <- "data: {\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n\n"
						}
					}), Options{MaxMessage: 4096, Log: slog.New(slog.DiscardHandler)})
				}
				k.greet()
				k.say(callLine)
				switch tt.result {
				case "":
					h := k.next("broken")
					if own := (*Error)(nil); h.id != "7" || h.err == nil || errors.As(h.err, &own) || !strings.HasPrefix(h.text, "{") {
						t.Errorf("%+v", h)
					}
				case "too large":
					if h := k.next("too large"); h.id != "7" {
						t.Errorf("%+v", h)
					}
				default:
					if h := k.next("frame"); h.id != "7" || string(h.f.Result) != tt.result {
						t.Errorf("%+v", h)
					}
				}
				k.say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
				if h := k.next("frame"); h.id != "8" {
					t.Errorf("the request is not over, or was ended twice: %+v", h)
				}
				k.over()
			})
		}
	}
}

// over waits until nothing that was sent is on its way any more: what waits for an answer
// keeps others from being sent.
func (k *talk) over() {
	k.t.Helper()
	testkit.Eventually(k.t, patience, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.queued > 0 {
			return errors.New("something waits for an answer that has come")
		}
		return nil
	})
}

// Who refuses a request before it is read does not know its id. What comes in answer to
// one request is for no other; a result that does not say so is not taken for one.
func TestAnswersWithoutAnID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`: "frame",
		`{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}`:           "frame",
		`{"jsonrpc":"2.0","id":null,"error":"what?"}`:                           "broken",
		`{"jsonrpc":"2.0","result":{"sum":3}}`:                                  "broken",
	} {
		for way, h := range map[string]http.HandlerFunc{
			"body": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", jsonType)
				_, _ = io.WriteString(w, text)
			},
			"stream that goes on": func(w http.ResponseWriter, r *http.Request) {
				events(w, "data: "+text+"\n\n")
				<-r.Context().Done()
			},
		} {
			t.Run(text+" "+way, func(t *testing.T) {
				t.Parallel()
				s := newFake()
				s.on["tools/call"] = h
				k := open(t, messages.TransportHTTP, s, Options{})
				k.greet()
				k.say(callLine)
				if h := k.next(want); h.id != "7" {
					t.Errorf("%+v", h)
				}
				k.say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
				if h := k.next("frame"); h.id != "8" {
					t.Errorf("the request is not over, or was ended twice: %+v", h)
				}
				k.over()
			})
		}
	}
}

// A mark in front of the stream of the older transport does not hide where requests go.
func TestMarkBeforeTheEndpoint(t *testing.T) {
	t.Parallel()
	old := oldServer("/post", func(out chan<- string, _ string) {
		out <- "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
	})
	k := open(t, messages.TransportSSE, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			events(w, mark)
		}
		old.ServeHTTP(w, r)
	}), Options{})
	k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	if h := k.next("frame"); h.id != "1" {
		t.Errorf("%+v", h)
	}
}

// The same holds for an answer with an error status. That text was repaired is said once.
func TestErrorWithAStatusThatIsNotAsItShould(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		mark + `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"caf` + "\xe9" + `"}}`,
		mark + `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"caf` + "\xe9" + `"}}`,
	} {
		s := newFake()
		s.on["tools/call"] = refuse(http.StatusBadRequest, jsonType, body)
		var log bytes.Buffer
		k := open(t, messages.TransportHTTP, s, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		k.greet()
		for range 3 {
			k.say(callLine)
			if h := k.next("frame"); h.id != "7" || string(h.f.Error) != `{"code":1,"message":"caf`+"\ufffd"+`"}` {
				t.Errorf("%+v", h)
			}
		}
		k.Release()
		if n := strings.Count(log.String(), "not UTF-8"); n != 1 {
			t.Errorf("the log tells of it %d times: %s", n, &log)
		}
	}
	if got := wordsOf([]byte(mark + `{"message":"not now"}`)); got != "not now" {
		t.Errorf("it said %q", got)
	}
}

// What answers nothing that waits ends nothing.
func TestUnreadableTextThatAnswersNothing(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
		for _, text := range []string{"NaN", `{"jsonrpc":"2.0","id":99,"result":NaN}`, `{"jsonrpc":"2.0","id":7,"method":"ping","params":NaN}`, `{"jsonrpc":"2.0","result":NaN}`, called} {
			events(w, "data: "+text+"\n\n")
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	for range 4 {
		k.next("noise")
	}
	if h := k.next("frame"); h.id != "7" || string(h.f.Result) != `{"sum":3}` {
		t.Errorf("%+v", h)
	}
}

// A session is renewed by a greeting that is written like any other answer.
func TestSessionIsRenewedDespiteBadBytes(t *testing.T) {
	t.Parallel()
	for what, welcome := range map[string]string{"a mark": mark + `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18"}}`, "a bad byte": `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"caf` + "\xe9" + `"}}}`} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on[methodInitialize] = func(w http.ResponseWriter, r *http.Request) {
				s.mu.Lock()
				s.sessions++
				session := fmt.Sprint("session-", s.sessions)
				s.live[session] = true
				s.mu.Unlock()
				w.Header().Set(headerSession, session)
				w.Header().Set("Content-Type", jsonType)
				_, _ = io.WriteString(w, strings.Replace(welcome, "ID", r.Header.Get("X-Id"), 1)) //nolint:gosec // no browser reads it
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			s.saw(t, 1, calls(methodInitialized))
			s.forget()
			k.say(callLine)
			for heard := (map[string]bool{}); !heard["renewed"] || !heard["frame"]; {
				h := k.anything()
				if h.what != "renewed" && h.what != "frame" {
					t.Fatalf("%+v", h)
				}
				heard[h.what] = true
			}
		})
	}
}
