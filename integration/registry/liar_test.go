package registry_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
)

const good = `{"server":{"name":"io.github.a/weather","description":"Weather","version":"1.0.0","packages":[{"registryType":"npm","identifier":"@a/weather","version":"1.0.0","transport":{"type":"stdio"}}]},"_meta":{"io.modelcontextprotocol.registry/official":{"status":"active","isLatest":true}}}`

// A registry that lies gets a clear word, and what else it says is used.
func TestRegistriesThatLie(t *testing.T) {
	t.Parallel()
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
	}
	bomb := func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		zeros := bytes.Repeat([]byte(" "), 1<<20)
		for range 12 {
			_, _ = z.Write(zeros)
		}
		_ = z.Close()
		return b.Bytes()
	}()
	var n atomic.Int64
	for _, tt := range []struct {
		name    string
		answer  http.HandlerFunc
		reason  registry.Reason // "": the good entry is used
		servers int             // where reason is ""
		note    string
	}{
		{"a web page", text("\n<!DOCTYPE html><html>Log in</html>"), registry.BadAnswer, 0, "a web page"},
		{"nothing", text(""), registry.BadAnswer, 0, "empty"},
		{"a number", text("42"), registry.BadAnswer, 0, "not the JSON of a registry"},
		{"no list", text(`{"metadata":{}}`), registry.BadAnswer, 0, "no list of servers"},
		{"an object for the list", text(`{"servers":{"a":1}}`), registry.BadAnswer, 0, "are not a list"},
		{"a string for the list", text(`{"servers":"all"}`), registry.BadAnswer, 0, "are not a list"},
		{"entries of wrong types", text(`{"servers":[1,"x",null,[],{"server":[]},{"server":{"name":7}},{"server":{"name":"io.github.a/b","version":1,"description":"x"}},` + good + `]}`), "", 1, "7 of 8 entries are not valid"},
		{"names with paths", text(`{"servers":[{"server":{"name":"../../etc/passwd","description":"x","version":"1.0.0"}},{"server":{"name":"a/b/../c","description":"x","version":"1"}},` + good + `]}`), "", 1, "is no name of a server"},
		{"ranges for versions", text(`{"servers":[{"server":{"name":"a.b/c","description":"x","version":"latest"}},{"server":{"name":"a.b/c","description":"x","version":"1.x"}},{"server":{"name":"a.b/c","description":"x"}},` + good + `]}`), "", 1, "no exact version"},
		{"metadata of a wrong type", text(`{"servers":[` + good + `],"metadata":[1]}`), "", 1, "whether there is more"},
		{"a cursor of a wrong type", text(`{"servers":[` + good + `],"metadata":{"nextCursor":17}}`), "", 1, "whether there is more"},
		{"a cursor that is endless", text(`{"servers":[` + good + `],"metadata":{"nextCursor":"` + strings.Repeat("c", 5000) + `"}}`), "", 1, "too long to be followed"},
		{"the same cursor again and again", text(`{"servers":[` + good + `],"metadata":{"nextCursor":"more"}}`), "", 1, "goes round in circles"},
		{"a new cursor again and again", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"servers":[%s],"metadata":{"nextCursor":"c%d"}}`, good, n.Add(1))
		}, "", 1, "only the first 5 pages were read"},
		{"100,000 entries", text(`{"servers":[` + strings.Repeat(`{},`, 99_999) + good + `]}`), "", 0, "more than 1000 servers"},
		{"an entry of 100,000 packages", text(`{"servers":[{"server":{"name":"io.github.a/b","description":"x","version":"1.0.0","packages":[` + strings.Repeat(`{},`, 99_999) + `{}]}},` + good + `]}`), "", 1, "larger than 256 KiB"},
		{"an entry of 50,000 packages", text(`{"servers":[{"server":{"name":"io.github.a/b","description":"x","version":"1.0.0","packages":[` + strings.Repeat(`{},`, 49_999) + `{}]}},` + good + `]}`), "", 1, "more than 20000 parts"},
		{"entries of many arguments", text(`{"servers":[` + good + strings.Repeat(`,{"server":{"name":"io.github.a/b","description":"x","version":"1.0.0","packages":[{"packageArguments":[`+strings.Repeat(`{},`, 8_000)+`{}]}]}}`, 50) + `]}`), "", 2, "those after the first 13 were left out"},
		{"an answer of 9 MiB", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"servers":["`)
			chunk := strings.Repeat("x", 1<<20)
			for range 9 {
				fmt.Fprint(w, chunk)
			}
			fmt.Fprint(w, `"]}`)
		}, registry.BadAnswer, 0, "larger than 8 MiB"},
		{"a bomb in gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb)
		}, registry.BadAnswer, 0, "larger than 8 MiB"},
		{"no gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, `{"servers":[]}`)
		}, registry.BadAnswer, 0, "cannot be unpacked"},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"servers":[`)
		}, registry.Unreachable, 0, "cut off"},
		{"hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, registry.Unreachable, 0, "cut off"},
		{"nested 100,000 deep", text(`{"servers":[` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `]}`), registry.BadAnswer, 0, "not the JSON of a registry"},
		{"no API", http.NotFound, registry.NotFound, 0, "nothing there"},
		{"not for everybody", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, registry.Refused, 0, "not answer everybody"},
		{"304 without a question", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, registry.Refused, 0, "304"},
		{"redirects for ever", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, fmt.Sprintf("/v0.1/servers?n=%d", n.Add(1)), http.StatusFound)
		}, registry.BadAnswer, 0, "redirects again and again"},
		{"redirects to where anybody listens", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://registry.invalid/v0.1/servers", http.StatusFound)
		}, registry.BadAnswer, 0, "not https"},
		{"an odd status", text(strings.ReplaceAll(`{"servers":[`+good+`]}`, `"active"`, `{"is":"active"}`)), "", 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake := fakeregistry.Start(t)
			fake.Instead(tt.answer)
			a := list(t, open(t, registry.Options{BaseURL: fake.URL, MaxPages: 5}), registry.Query{Limit: 50})
			notes := strings.Join(a.Notes, "\n")
			if !strings.Contains(notes, tt.note) {
				t.Errorf("notes %q, want %q in them", notes, tt.note)
			}
			if tt.reason == "" {
				if len(a.Servers) != tt.servers || a.Source != registry.FromRegistry || a.Complete && tt.note != "" {
					t.Errorf("%d servers from %s, complete %t", len(a.Servers), a.Source, a.Complete)
				}
				return
			}
			if a.Cause == nil || a.Cause.Reason != tt.reason || a.Source != registry.FromBuiltin || len(a.Servers) != 20 || a.Complete {
				t.Errorf("%d servers from %s, complete %t, cause %+v", len(a.Servers), a.Source, a.Complete, a.Cause)
			}
		})
	}
}

func TestSlowRegistries(t *testing.T) {
	release := make(chan struct{})
	fake := fakeregistry.Start(t)
	fake.Instead(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"servers":[`)
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	a := list(t, open(t, registry.Options{BaseURL: fake.URL, Timeout: 50 * time.Millisecond}), registry.Query{})
	if a.Cause == nil || a.Cause.Reason != registry.TooSlow || a.Source != registry.FromBuiltin {
		t.Errorf("one that stops in the middle: %+v", a)
	}
	a = list(t, open(t, registry.Options{BaseURL: fake.URL, Total: 50 * time.Millisecond}), registry.Query{})
	if a.Cause == nil || a.Cause.Reason != registry.TooSlow {
		t.Errorf("one that takes all the time there is: %+v", a)
	}
}

func TestFailureInTheMiddleLeavesWhatCame(t *testing.T) {
	fake := fakeregistry.Start(t)
	fake.Instead(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") != "" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprintf(w, `{"servers":[%s],"metadata":{"nextCursor":"two"}}`, good)
	})
	a := list(t, open(t, registry.Options{BaseURL: fake.URL}), registry.Query{})
	if len(a.Servers) != 1 || a.Complete || a.Cause == nil || !strings.Contains(strings.Join(a.Notes, ""), "not complete: the registry answered 502") {
		t.Errorf("%+v", a)
	}
	if got := len(fake.Requests()); got != 3 {
		t.Errorf("%d requests, want one for the first page and two for the second", got)
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	time0 := newClock()
	fake := fakeregistry.Start(t, fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather"))
	wait := "3600"
	fake.Instead(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", wait)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c := open(t, registry.Options{BaseURL: fake.URL, Now: time0.now})
	a := list(t, c, registry.Query{})
	if a.Cause == nil || a.Cause.RetryAfter != time.Hour || a.Source != registry.FromBuiltin || len(fake.Requests()) != 1 {
		t.Fatalf("%+v after %q", a, fake.Requests())
	}
	time0.advance(30 * time.Minute)
	if a = list(t, c, registry.Query{}); !strings.Contains(strings.Join(a.Notes, ""), "(for another 30m") || len(fake.Requests()) != 1 {
		t.Errorf("it was asked all the same: %q, %q", a.Notes, fake.Requests())
	}
	time0.advance(31 * time.Minute)
	fake.Instead(nil)
	if a = list(t, c, registry.Query{}); len(a.Servers) != 1 || a.Cause != nil {
		t.Errorf("afterwards: %+v", a)
	}
	for _, odd := range []string{"-5", "soon", "99999999999999999999", strconv.Itoa(1 << 30)} {
		wait = odd
		fake.Instead(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", odd)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		fresh := open(t, registry.Options{BaseURL: fake.URL, Now: time0.now})
		if a = list(t, fresh, registry.Query{}); a.Cause == nil || a.Cause.RetryAfter > time.Hour {
			t.Errorf("Retry-After %q: %+v", odd, a.Cause)
		}
	}
}

// A registry is left alone by every client with the same cache, and what they say tells
// until when. A rest that nobody can have asked for does not count.
func TestRetryAfterIsKeptForOtherClients(t *testing.T) {
	time0 := newClock()
	fake := fakeregistry.Start(t, fakeregistry.Server("io.github.a/weather", "1.0.0", "Weather", "@a/weather"))
	file := filepath.Join(t.TempDir(), "registry-cache.json")
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	opts := registry.Options{BaseURL: fake.URL, CacheFile: file, Now: time0.now}
	end := func() string { return "left alone until " + time0.now().Add(time.Hour).Local().Format(time.TimeOnly) }
	fake.Instead(refuse)
	until := end()
	if a := list(t, open(t, opts), registry.Query{}); !strings.Contains(strings.Join(a.Notes, ""), until) {
		t.Errorf("at first: %q, want it %s", a.Notes, until)
	}
	time0.advance(59 * time.Minute)
	if a := list(t, open(t, opts), registry.Query{}); !strings.Contains(strings.Join(a.Notes, ""), until) || len(fake.Requests()) != 1 {
		t.Errorf("then: %q after %q, want it %s", a.Notes, fake.Requests(), until)
	}
	if _, _, err := open(t, opts).Version(t.Context(), "io.github.a/weather", "1.0.0"); err == nil || !strings.Contains(err.Error(), until) || len(fake.Requests()) != 1 {
		t.Errorf("one version: %v after %q", err, fake.Requests())
	}
	other := fakeregistry.Start(t)
	if a := list(t, open(t, registry.Options{BaseURL: other.URL, CacheFile: file, Now: time0.now}), registry.Query{}); a.Cause != nil {
		t.Errorf("another registry: %+v", a)
	}
	time0.advance(2 * time.Minute)
	until = end()
	if _, _, err := open(t, opts).Version(t.Context(), "io.github.a/weather", "1.0.0"); err == nil || !strings.Contains(err.Error(), until) || len(fake.Requests()) != 2 {
		t.Errorf("an hour later: %v after %q, want it %s", err, fake.Requests(), until)
	}
	time0.advance(-2 * time.Hour)
	until = end()
	for range 2 {
		if a := list(t, open(t, opts), registry.Query{}); !strings.Contains(strings.Join(a.Notes, ""), until) || len(fake.Requests()) != 3 {
			t.Errorf("with the clock put back: %q after %q, want it %s", a.Notes, fake.Requests(), until)
		}
	}
	time0.advance(2 * time.Hour)
	fake.Instead(nil)
	if a := list(t, open(t, opts), registry.Query{}); len(a.Servers) != 1 || a.Cause != nil {
		t.Errorf("afterwards: %+v", a)
	}
}

// Who gives up while the registry wants to be left alone for a moment has others leave
// it alone, too.
func TestARestThatIsNotWaitedForIsKept(t *testing.T) {
	fake := fakeregistry.Start(t)
	fake.Instead(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "50")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time0 := newClock()
	opts := registry.Options{BaseURL: fake.URL, CacheFile: filepath.Join(t.TempDir(), "registry-cache.json"), Now: func() time.Time {
		if len(fake.Requests()) > 0 { // it has answered, and when to ask again is found out
			cancel()
		}
		return time0.now()
	}}
	if _, err := open(t, opts).List(ctx, registry.Query{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	if a := list(t, open(t, opts), registry.Query{}); a.Cause == nil || a.Cause.RetryAfter != 50*time.Second || len(fake.Requests()) != 1 {
		t.Errorf("the second: %+v after %q", a, fake.Requests())
	}
}

func TestOneFailureIsRepeated(t *testing.T) {
	fake := fakeregistry.Start(t)
	var n atomic.Int64
	fake.Instead(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, `{"servers":[%s]}`, good)
	})
	if a := list(t, open(t, registry.Options{BaseURL: fake.URL}), registry.Query{}); len(a.Servers) != 1 || a.Cause != nil || !a.Complete {
		t.Errorf("%+v", a)
	}
}
