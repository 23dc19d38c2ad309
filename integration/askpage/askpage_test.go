package askpage_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/askpage"
)

const secret = "sk_live_0123456789abcdef"

// browser is one that does what a person would.
type browser struct {
	t    *testing.T
	http *http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar, Timeout: time.Minute}}
}

// do sends a request with headers, and returns the status, the page and its headers.
func (b *browser) do(method, address, body string, headers ...string) (int, string, http.Header) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

var csrf = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// open opens a page and returns the token of its form.
func (b *browser) open(address string) (token, page string) {
	b.t.Helper()
	status, page, _ := b.do(http.MethodGet, address, "")
	found := csrf.FindStringSubmatch(page)
	if status != http.StatusOK || found == nil {
		b.t.Fatalf("%d: %s", status, page)
	}
	return found[1], page
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u.Scheme + "://" + u.Host
}

const form = "application/x-www-form-urlencoded"

func (b *browser) send(address string, values url.Values, headers ...string) (int, string) {
	b.t.Helper()
	status, page, _ := b.do(http.MethodPost, address, values.Encode(), append([]string{"Content-Type", form, "Origin", origin(address)}, headers...)...)
	return status, page
}

// asked is a page that waits.
type asked struct {
	*askpage.Page
	kept chan map[string]string
	done chan error
}

func ask(t *testing.T, s *askpage.Pages, q askpage.Question, local bool) *asked {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &asked{kept: make(chan map[string]string, 1), done: make(chan error, 1)}
	if q.Keep == nil {
		q.Keep = func(_ context.Context, values map[string]string) error {
			a.kept <- values
			return nil
		}
	}
	p, err := s.Open(ctx, q, local)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	a.Page = p
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		a.done <- p.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-waited
	})
	return a
}

func (a *asked) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-a.done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the page is still open")
		return nil
	}
}

var question = askpage.Question{
	Server: "pay", Package: "@acme/pay 1.2.3", Asker: "a client that calls itself <b>me</b>", Why: "It wants to.",
	Fields: []askpage.Field{
		{Name: "PAY_KEY", Description: "<script>alert(1)</script> the\u202e key", Secret: true}, {Name: "REGION", Choices: []string{"eu", "us"}}, {Name: "USER_NAME"},
	},
}

func TestAnswered(t *testing.T) {
	t.Parallel()
	a := ask(t, &askpage.Pages{}, question, true)
	if !strings.HasPrefix(a.URL(), "http://127.0.0.1:") {
		t.Errorf("it is at %s", a.URL())
	}
	b := newBrowser(t)
	token, page := b.open(a.URL())
	for _, want := range []string{"pay", "@acme/pay 1.2.3", "&lt;b&gt;me&lt;/b&gt;", "It wants to.", "PAY_KEY", "&lt;script&gt;alert(1)&lt;/script&gt; the key", `type="password"`, "<option>eu</option>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "\u202e") {
		t.Errorf("the publisher writes the page: %s", page)
	}
	_, _, h := b.do(http.MethodGet, a.URL(), "") // the same browser may look again
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %q", name, h.Get(name))
		}
	}
	if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src") {
		t.Errorf("the policy is %s", policy)
	}

	values := url.Values{"csrf": {token}, "do": {"keep"}, "v0": {secret}, "v1": {"mars"}, "v2": {"someone"}}
	status, page := b.send(a.URL(), values)
	if status != http.StatusUnprocessableEntity || !strings.Contains(page, "REGION") || !strings.Contains(page, `value="someone"`) || strings.Contains(page, secret) {
		t.Errorf("a wrong choice: %d %s", status, page)
	}
	values.Set("v1", "us")
	values.Set("v0", "  "+secret+"\n")
	status, page = b.send(a.URL(), values)
	if status != http.StatusOK || strings.Contains(page, secret) {
		t.Errorf("%d %s", status, page)
	}
	if err := a.end(t); err != nil {
		t.Error(err)
	}
	if got := <-a.kept; got["PAY_KEY"] != secret || got["REGION"] != "us" || got["USER_NAME"] != "someone" {
		t.Errorf("kept %q", got)
	}
	if resp, err := b.http.Get(a.URL()); err == nil {
		_ = resp.Body.Close()
		t.Error("the page is there after its answer")
	}
}

// Whoever is not the person is refused, and changes nothing for the person.
func TestRefused(t *testing.T) {
	t.Parallel()
	a := ask(t, &askpage.Pages{}, question, true)
	b, thief := newBrowser(t), newBrowser(t)
	for _, headers := range [][]string{{"Host", "evil.example"}, {"Host", "localhost:80"}, {"Sec-Purpose", "prefetch"}, {"Sec-Fetch-Dest", "iframe"}} {
		if status, page, _ := thief.do(http.MethodGet, a.URL(), "", headers...); status != http.StatusForbidden || strings.Contains(page, "PAY_KEY") {
			t.Errorf("%q: %d %s", headers, status, page)
		}
	}
	for _, path := range []string{"/", "/ask/", "/ask/x", "/ask"} {
		if status, page, _ := thief.do(http.MethodGet, origin(a.URL())+path, ""); status != http.StatusNotFound || strings.Contains(page, "PAY_KEY") {
			t.Errorf("%s: %d %s", path, status, page)
		}
	}
	token, _ := b.open(a.URL())
	if status, page, _ := thief.do(http.MethodGet, a.URL(), ""); status != http.StatusForbidden || strings.Contains(page, token) {
		t.Errorf("a second browser: %d %s", status, page)
	}
	good := url.Values{"csrf": {token}, "do": {"keep"}, "v0": {secret}, "v1": {"us"}, "v2": {"x"}}
	if status, _ := thief.send(a.URL(), good); status != http.StatusForbidden {
		t.Errorf("an answer of a second browser: %d", status)
	}
	for _, headers := range [][]string{{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", ""}, {"Host", "evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
		if status, _ := b.send(a.URL(), good, headers...); status != http.StatusForbidden {
			t.Errorf("%q: %d", headers, status)
		}
	}
	for what, change := range map[string]func(url.Values) []string{
		"no token":     func(v url.Values) []string { v.Del("csrf"); return nil },
		"forged token": func(v url.Values) []string { v.Set("csrf", strings.Repeat("A", len(token))); return nil },
		"JSON":         func(url.Values) []string { return []string{"Content-Type", "application/json"} },
		"too large":    func(v url.Values) []string { v.Set("v0", strings.Repeat("x", 4<<20)); return nil },
	} {
		v := url.Values{}
		for k, list := range good {
			v[k] = list
		}
		if status, _ := b.send(a.URL(), v, change(v)...); status != http.StatusBadRequest {
			t.Errorf("%s: %d", what, status)
		}
	}
	if status, _, _ := b.do(http.MethodPut, a.URL(), ""); status != http.StatusMethodNotAllowed {
		t.Errorf("PUT: %d", status)
	}
	if len(a.kept) != 0 {
		t.Fatalf("kept %q", <-a.kept)
	}
	if status, page := b.send(a.URL(), good); status != http.StatusOK {
		t.Errorf("the person: %d %s", status, page)
	}
	if err := a.end(t); err != nil {
		t.Error(err)
	}
}

func TestDeclinedAndWithdrawn(t *testing.T) {
	t.Parallel()
	pages := &askpage.Pages{}
	a := ask(t, pages, question, true)
	b := newBrowser(t)
	token, _ := b.open(a.URL())
	if status, _ := b.send(a.URL(), url.Values{"csrf": {token}, "do": {"decline"}}); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if err := a.end(t); !errors.Is(err, askpage.ErrDeclined) || len(a.kept) != 0 {
		t.Errorf("%v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	p, err := pages.Open(ctx, question, true)
	if err != nil {
		t.Fatal(err)
	}
	newBrowser(t).open(p.URL())
	cancel() // the client has gone
	if err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if resp, err := http.Get(p.URL()); err == nil {
		_ = resp.Body.Close()
		t.Error("the page is there after its client")
	}
}

// What cannot be kept is told to the person, who may try again.
func TestNotKept(t *testing.T) {
	t.Parallel()
	q := question
	tries := 0
	q.Keep = func(context.Context, map[string]string) error {
		if tries++; tries == 1 {
			return errors.New("the keyring is <locked>")
		}
		return nil
	}
	a := ask(t, &askpage.Pages{}, q, true)
	b := newBrowser(t)
	token, _ := b.open(a.URL())
	values := url.Values{"csrf": {token}, "do": {"keep"}, "v0": {secret}, "v1": {"us"}, "v2": {"x"}}
	if status, page := b.send(a.URL(), values); status != http.StatusUnprocessableEntity || !strings.Contains(page, "the keyring is &lt;locked&gt;") {
		t.Errorf("%d %s", status, page)
	}
	if status, _ := b.send(a.URL(), values); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if err := a.end(t); err != nil || tries != 2 {
		t.Errorf("%v after %d tries", err, tries)
	}
}

// Who enters what was given elsewhere meanwhile hears that it was not kept.
func TestTaken(t *testing.T) {
	t.Parallel()
	q := question
	q.Keep = func(context.Context, map[string]string) error { return askpage.ErrTaken }
	a := ask(t, &askpage.Pages{}, q, true)
	b := newBrowser(t)
	token, _ := b.open(a.URL())
	values := url.Values{"csrf": {token}, "do": {"keep"}, "v0": {secret}, "v1": {"us"}, "v2": {"x"}}
	if status, page := b.send(a.URL(), values); status != http.StatusOK || !strings.Contains(page, "was not kept") {
		t.Errorf("%d %s", status, page)
	}
	if err := a.end(t); err != nil {
		t.Error(err)
	}
}

// Pages for browsers elsewhere are below the public URL, whoever serves that.
func TestPublic(t *testing.T) {
	t.Parallel()
	pages := &askpage.Pages{}
	if _, err := pages.Open(t.Context(), question, false); !errors.Is(err, askpage.ErrNowhere) {
		t.Errorf("without a public URL: %v", err)
	}
	front := httptest.NewServer(pages)
	defer front.Close()
	var err error
	if pages.Public, err = url.Parse(front.URL); err != nil {
		t.Fatal(err)
	}
	a, local := ask(t, pages, question, false), ask(t, pages, question, true)
	if !strings.HasPrefix(a.URL(), front.URL+askpage.Prefix) || strings.HasPrefix(local.URL(), front.URL) {
		t.Errorf("they are at %s and %s", a.URL(), local.URL())
	}
	b := newBrowser(t)
	if status, _, _ := b.do(http.MethodGet, strings.Replace(local.URL(), origin(local.URL()), front.URL, 1), ""); status != http.StatusNotFound {
		t.Errorf("the page of this machine is served to others: %d", status)
	}
	token, _ := b.open(a.URL())
	if status, page := b.send(a.URL(), url.Values{"csrf": {token}, "do": {"keep"}, "v0": {secret}, "v1": {"us"}, "v2": {"x"}}); status != http.StatusOK {
		t.Errorf("%d %s", status, page)
	}
	if err := a.end(t); err != nil {
		t.Error(err)
	}
	if status, _, _ := b.do(http.MethodGet, a.URL(), ""); status != http.StatusNotFound {
		t.Errorf("after the answer: %d", status)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	pages := &askpage.Pages{}
	for _, n := range []int{0, askpage.MaxFields + 1} {
		q := question
		q.Fields = make([]askpage.Field, n)
		if _, err := pages.Open(t.Context(), q, true); err == nil {
			t.Errorf("a page with %d fields", n)
		}
	}
	for range 64 {
		ask(t, pages, question, true)
	}
	if _, err := pages.Open(t.Context(), question, true); err == nil {
		t.Error("there is no bound on the pages")
	}
}
