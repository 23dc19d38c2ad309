package httpembed_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/httpembed"
	"github.com/metamcp/metamcp/index/embed/httpembed/cloudtest"
	"github.com/metamcp/metamcp/index/embed/internal/embedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-secret-0123456789"

// open returns a client of a server that is patient to nobody.
func open(t *testing.T, endpoint string, limits httpembed.Limits) *httpembed.Client {
	t.Helper()
	if limits.Backoff == 0 {
		limits.Backoff, limits.MaxBackoff = time.Millisecond, 4*time.Millisecond
	}
	c, err := httpembed.New(httpembed.Config{
		Service: "Fake", Model: "fake/model", Endpoint: endpoint, Key: key,
		KeyHint: "Set FAKE_KEY.", ModelHint: "Set the model.", URLHint: "Set the URL.",
		MaxTexts: 32, MaxTokens: 10_000, MaxText: 8_000,
		Encode: func(kind embed.Kind, texts []string) any {
			return map[string]any{"input": texts, "model": "voyage-3-lite", "input_type": kind.String()}
		},
		Limits: limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func wantError(t *testing.T, err error, reason embed.Reason) *embed.Error {
	t.Helper()
	e := embedtest.WantError(t, err, reason)
	if strings.Contains(e.Error(), key) || strings.Contains(fmt.Sprint(e.Cause), key) {
		t.Errorf("the key is in %q", e)
	}
	return e
}

// serve starts a server for a handler; what it is given ends with the test.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func answer(items ...string) string {
	return `{"object":"list","data":[` + strings.Join(items, ",") + `]}`
}

func item(index int, vector string) string {
	return fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, index, vector)
}

func TestAnswers(t *testing.T) {
	two := []string{"a", "b"}
	tests := []struct {
		name, body string
		want       embed.Reason // "": it is good
		says       string
	}{
		{"good", answer(item(1, "[0,2]"), item(0, "[1.5e0,0]")), "", ""},
		{"without indexes", answer(`{"embedding":[1,0]}`, `{"embedding":[0,1]}`), "", ""},
		{"with white space", " " + answer(item(0, "[ 1 ,\n0 ]"), item(1, "[0,1]")) + "\n", "", ""},
		{"too few", answer(item(0, "[1,0]")), embed.BadAnswer, "1 vectors for 2 texts"},
		{"too many", answer(item(0, "[1,0]"), item(1, "[1,0]"), item(2, "[1,0]")), embed.BadAnswer, "3 vectors for 2 texts"},
		{"none", `{"data":[]}`, embed.BadAnswer, "without vectors"},
		{"an error with status 200", `{"error":{"message":"out of memory"}}`, embed.BadAnswer, "out of memory"},
		{"an index twice", answer(item(0, "[1,0]"), item(0, "[1,0]")), embed.BadAnswer, "index 0 twice"},
		{"an index too large", answer(item(0, "[1,0]"), item(2, "[1,0]")), embed.BadAnswer, "index 2"},
		{"a negative index", answer(item(0, "[1,0]"), item(-1, "[1,0]")), embed.BadAnswer, "index -1"},
		{"mixed dimensions", answer(item(0, "[1,0]"), item(1, "[1,0,0]")), embed.BadAnswer, "different dimensions"},
		{"null", answer(item(0, "[1,0]"), item(1, "null")), embed.BadAnswer, "no array of numbers"},
		{"null in it", answer(item(0, "[1,0]"), item(1, "[null,1]")), embed.BadAnswer, `number 0 of it is "null"`},
		{"NaN", answer(item(0, "[1,0]"), item(1, "[NaN,1]")), embed.BadAnswer, "something else than JSON"},
		{"NaN as text", answer(item(0, "[1,0]"), item(1, `["NaN",1]`)), embed.BadAnswer, "number 0"},
		{"infinite", answer(item(0, "[1,0]"), item(1, "[1e999,1]")), embed.BadAnswer, "number 0"},
		{"NaN in base64", answer(item(0, "[1,0]"), item(1, `"AADAfwAAgD8="`)), embed.BadAnswer, "NaN"},
		{"no base64", answer(item(0, "[1,0]"), item(1, `"hello"`)), embed.BadAnswer, "neither"},
		{"empty", answer(item(0, "[]"), item(1, "[]")), embed.BadAnswer, "empty"},
		{"nested", answer(item(0, "[[1,0]]"), item(1, "[[1,0]]")), embed.BadAnswer, "number 0"},
		{"an object", answer(item(0, `{"0":1}`), item(1, `{"0":1}`)), embed.BadAnswer, "no array"},
		{"a page", "<html><head><title>Sign  in\x1b[31m</title></head><script>var x</script></html>", embed.BadAnswer, ": Sign in[31m"},
		{"cut off", answer(item(0, "[1,0]"))[:30], embed.BadAnswer, "something else than JSON"},
		{"nothing", "", embed.BadAnswer, "something else than JSON"},
		{"the key", key, embed.BadAnswer, "[key]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked := atomic.Int32{}
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				_, _ = io.WriteString(w, tt.body)
			})
			vectors, err := open(t, s.URL, httpembed.Limits{}).Embed(t.Context(), embed.Document, two)
			if tt.want == "" {
				if err != nil || vectors[0][0] != 1 || vectors[1][1] != 1 {
					t.Errorf("%v, %v", vectors, err)
				}
				return
			}
			if e := wantError(t, err, tt.want); !strings.Contains(e.Message, tt.says) || len(e.Message) > 500 {
				t.Errorf("%q", e.Message)
			}
			if asked.Load() != 1 {
				t.Errorf("asked %d times", asked.Load())
			}
		})
	}
}

func TestZerosSayNothing(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answer(item(0, "[0,0]"), item(1, "[0,3]")))
	})
	v, err := open(t, s.URL, httpembed.Limits{}).Embed(t.Context(), embed.Document, []string{"a", "b"})
	if err != nil || v[0] != nil || v[1][1] != 1 {
		t.Errorf("%v, %v", v, err)
	}
}

// TestAnotherDimension changes the model behind an address.
func TestAnotherDimension(t *testing.T) {
	vector := atomic.Value{}
	vector.Store("[1,0]")
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answer(item(0, vector.Load().(string))))
	})
	c := open(t, s.URL, httpembed.Limits{})
	if _, err := c.Embed(t.Context(), embed.Document, []string{"a"}); err != nil {
		t.Fatal(err)
	}
	vector.Store("[1,0,0]")
	_, err := c.Embed(t.Context(), embed.Query, []string{"a"})
	if e := wantError(t, err, embed.BadAnswer); !strings.Contains(e.Hint, "metamcp index rebuild") || !strings.Contains(e.Message, "3 numbers") {
		t.Errorf("%q, hint %q", e.Message, e.Hint)
	}
	vector.Store("[0,1]")
	if _, err := c.Embed(t.Context(), embed.Document, []string{"a"}); err != nil {
		t.Errorf("the right one again: %v", err)
	}
}

func TestHugeAnswer(t *testing.T) {
	written := make(chan int64, 1)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"index":0,"embedding":[1`)
		part := strings.Repeat(",0.12345678", 10_000)
		total := int64(0)
		for total < 1<<30 {
			n, err := io.WriteString(w, part)
			total += int64(n)
			if err != nil {
				break
			}
		}
		written <- total
	})
	_, err := open(t, s.URL, httpembed.Limits{}).Embed(t.Context(), embed.Query, []string{"a"})
	wantError(t, err, embed.BadAnswer)
	if n := <-written; n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	_, err = open(t, "http://"+address+"/v1/embeddings?secret=123", httpembed.Limits{}).Embed(t.Context(), embed.Query, []string{"a"})
	e := wantError(t, err, embed.Unavailable)
	if !strings.Contains(e.Hint, "Is it running") || !strings.Contains(e.Message, address) || strings.Contains(e.Error(), "secret=") {
		t.Errorf("%q, hint %q", e.Message, e.Hint)
	}
}

// TestNobodyListensIsSaidAtOnce: a second attempt would come after an hour.
func TestNobodyListensIsSaidAtOnce(t *testing.T) {
	c := open(t, "http://127.0.0.1:1/v1", httpembed.Limits{Backoff: time.Hour, MaxBackoff: time.Hour, Documents: 24 * time.Hour, Query: 24 * time.Hour})
	for _, kind := range []embed.Kind{embed.Document, embed.Query} {
		_, err := c.Embed(t.Context(), kind, []string{"a", "b"})
		wantError(t, err, embed.Unavailable)
	}
}

func TestRedirects(t *testing.T) {
	var strayed atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { strayed.Add(1) })
	fake := cloudtest.New(t, cloudtest.Voyage)
	fake.Key = key
	var to atomic.Value
	var status atomic.Int32
	front := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/embeddings" {
			fake.ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, to.Load().(string), int(status.Load()))
	})
	tests := []struct {
		name, to string
		status   int
		want     embed.Reason
		says     string
	}{
		{"same host", "/v1/embeddings", 308, "", ""},
		{"same host, 307", front.URL + "/v1/embeddings", 307, "", ""},
		{"method lost", "/v1/embeddings", 301, embed.Misconfigured, "the texts would get lost"},
		{"another port", other.URL + "/v1/embeddings", 307, embed.Misconfigured, "another host"},
		{"another host", "http://localhost" + strings.TrimPrefix(other.URL, "http://127.0.0.1"), 308, embed.Misconfigured, "another host"},
		{"another host, seen by Go as a subdomain", "http://evil.127.0.0.1/", 302, embed.Misconfigured, "another host"},
		{"in circles", "/loop", 307, embed.Misconfigured, "again and again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to.Store(tt.to)
			status.Store(int32(tt.status))
			_, err := open(t, front.URL+"/old", httpembed.Limits{}).Embed(t.Context(), embed.Document, []string{"a"})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if e := wantError(t, err, tt.want); !strings.Contains(e.Message, tt.says) {
				t.Error(e)
			}
		})
	}
	if n := strayed.Load(); n > 0 {
		t.Errorf("%d requests went to another host", n)
	}
}

func TestNew(t *testing.T) {
	for _, endpoint := range []string{"", "x", "ftp://host/", "http://", "https:///path", "http://%zz"} {
		_, err := httpembed.New(httpembed.Config{Service: "Fake", Endpoint: endpoint})
		wantError(t, err, embed.Misconfigured)
	}
}

// TestOddTexts sends what a catalog may hold.
func TestOddTexts(t *testing.T) {
	fake := cloudtest.New(t, cloudtest.Voyage)
	fake.Key = key
	c := open(t, fake.URL+"/v1/embeddings", httpembed.Limits{})
	texts := []string{"\xff\xfe", strings.Repeat("长", 100_000), "\x00", "\u2028", "a\x00b", `"}]}`}
	vectors, err := c.Embed(t.Context(), embed.Document, texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, blank := range []bool{false, false, true, true, false, false} {
		if (vectors[i] == nil) != blank {
			t.Errorf("%s: %v", strconv.Quote(texts[i])[:min(20, len(strconv.Quote(texts[i])))], vectors[i])
		}
	}
	if none, err := c.Embed(t.Context(), embed.Document, nil); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}
