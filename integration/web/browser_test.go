package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// browser starts a headless Chromium and ends it with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	b := npmservers.Chromium(t)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(b.Path), chromedp.Env(b.Env...),
		chromedp.NoSandbox, // the tests may run as root, and load nothing but this page
		chromedp.DisableGPU, chromedp.Flag("no-zygote", true), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("end the browser: %v", err)
		}
		cancel()
		endAllocator()
	})
	if err := chromedp.Do(ctx); err != nil { // starts it
		t.Fatalf("start %s: %v", b.Path, err)
	}
	return ctx
}

// tab is a page in a browser, and what it did that it should not do.
type tab struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // chromedp keeps its state there
	origin string

	mu    sync.Mutex
	wrong []string
	quiet bool // complaints are expected
}

// openTab opens a link and watches the page until the test ends: no request
// may go elsewhere, and nothing may be complained of.
func openTab(t *testing.T, browser context.Context, link string) *tab {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(browser, 2*time.Minute)
	ctx, endTab := chromedp.NewContext(ctx)
	b := &tab{t: t, ctx: ctx, origin: u.Scheme + "://" + u.Host}
	t.Cleanup(func() {
		endTab()
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, w := range b.wrong {
			t.Error(w)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.watch); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(link))
	b.until(`document.getElementById("link").dataset.state === "live"`)
	return b
}

func (b *tab) watch(ev any) {
	var wrong string
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, b.origin+"/") && !strings.HasPrefix(ev.Request.URL, "data:") {
			wrong = "the page asks for " + ev.Request.URL
		}
	case *runtime.EventExceptionThrown:
		wrong = fmt.Sprintf("the page threw %s: %+v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		text, _ := json.Marshal(ev.Args) //nolint:errchkjson // for people
		wrong = "the page wrote to its console: " + string(text)
	case *log.EventEntryAdded:
		wrong = fmt.Sprintf("the browser complains: %s (%s)", ev.Entry.Text, ev.Entry.URL)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if wrong != "" && !b.quiet {
		b.wrong = append(b.wrong, wrong)
	}
}

// expectComplaints is called before what is complained of is done: the browser may
// speak of it at once.
func (b *tab) expectComplaints() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet = true
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns what an expression is in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// run runs statements in the page.
func (b *tab) run(script string) {
	b.t.Helper()
	eval[bool](b, "(() => { "+script+"; return true })()")
}

// until waits until an expression is true in the page.
func (b *tab) until(expression string) {
	b.t.Helper()
	testkit.Eventually(b.t, patience, func() error {
		ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && !ok {
			err = fmt.Errorf("%s is not true; the page says: %.2000s", expression, b.text("main"))
		}
		return err
	})
}

func (b *tab) text(selector string) string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector(`+strconv.Quote(selector)+`).innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// tabTo presses Tab until the focus is where the selector says.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 60 {
		b.do(chromedp.KeyEvent("\t"))
		if eval[bool](b, `document.activeElement.matches(`+strconv.Quote(selector)+`)`) {
			if !eval[bool](b, `getComputedStyle(document.activeElement).outlineStyle !== "none"`) {
				b.t.Errorf("nobody sees the focus on %s", selector)
			}
			return
		}
	}
	b.t.Fatalf("Tab does not lead to %s", selector)
}

const (
	enter  = "\r"
	escape = "\u001b"
)

// TestPage drives the page of a real engine in a real browser.
func TestPage(t *testing.T) {
	chrome := browser(t)
	t.Run("states change live", func(t *testing.T) {
		e, s := openPage(t, map[string]any{
			"demo": child("demo", "small tools"), "broken": map[string]any{"command": "/no/such/program"},
		}, nil)
		b := openTab(t, chrome, s.URL())
		if at := eval[string](b, "location.href"); strings.Contains(at, "token") {
			t.Errorf("the token stays in the address: %s", at)
		}
		if cookie := eval[string](b, "document.cookie"); cookie != "" {
			t.Errorf("scripts read the cookie %q", cookie)
		}
		b.until(`document.querySelector('[data-server="demo"] .processes').textContent === "no process"`)
		call(t, e, "demo", "echo", `{"text":"hello"}`)
		b.until(`document.getElementById("calls-total").textContent === "1"`)
		b.until(`/^1 call, p50 [0-9.]+ .?s, p99 [0-9.]+ .?s/.test(document.querySelector('[data-server="demo"] .use').textContent)`)
		if goruntime.GOOS == "linux" {
			b.until(`/ · [0-9]+ MiB · [0-9]+ % CPU$/.test(document.querySelector('[data-server="demo"] .use').textContent)`)
		}
		b.until(`document.querySelectorAll('#flow [data-kind="answer"]').length === 1`)
		calling, enough := context.WithCancel(t.Context())
		defer enough()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = e.Execute(calling, "demo", "slow", json.RawMessage(`{"ms":600000}`), metamcp.ExecuteOptions{}) // ends when it was seen
		}()
		b.until(`document.querySelector('[data-server="demo"]').dataset.state === "ACTIVE"`)
		b.until(`document.querySelector('[data-server="demo"] .processes').textContent.includes("1 in flight")`)
		b.until(`document.querySelectorAll("#places .busy").length === 1`)
		enough()
		<-done
		b.until(`document.querySelector('[data-server="demo"]').dataset.state === "IDLE"`)
		for range 6 {
			_, _ = e.Execute(t.Context(), "broken", "x", nil, metamcp.ExecuteOptions{}) // it fails, and the page shows it
		}
		b.until(`document.querySelector('[data-server="broken"] .error').textContent.includes("/no/such/program")`)
		b.until(`/^breaker open, [0-9]+ s left$/.test(document.querySelector('[data-server="broken"] .breaker').textContent)`)
		b.run(`window.seen = document.querySelector('[data-server="broken"] .breaker').textContent`)
		b.until(`document.querySelector('[data-server="broken"] .breaker').textContent !== window.seen`) // it counts down

		b.expectComplaints()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
		b.until(`document.getElementById("link").dataset.state === "gone" && !document.getElementById("banner").hidden`)
		closePage(t, s)
		b.until(`document.getElementById("banner").textContent.includes("does not answer")`)
	})
	t.Run("one request", func(t *testing.T) {
		e, s := openPage(t, map[string]any{"demo": child("demo", "")}, nil)
		b := openTab(t, chrome, s.URL())
		call(t, e, "demo", "echo", `{"text":"hello"}`)
		b.until(`document.querySelector('#flow [data-kind="answer"] a')`)
		b.run(`document.querySelector('#flow [data-kind="answer"] a').click()`)
		b.until(`document.getElementById("request").open && document.querySelector('.steps [data-kind="answer"]')`)
		b.until(`[...document.querySelectorAll("#request-facts dd")].some((d) => d.textContent === "demo/echo")`)
		b.until(`[...document.querySelectorAll(".steps .what")].some((p) => /^Call.*demo~.* → demo~.*conn#1$/.test(p.textContent))`)
		b.until(`document.querySelectorAll(".steps .arrow").length > 3`)
		// The address opens it again, also in a tab that did not see it happen.
		link := eval[string](b, "location.href")
		if !strings.Contains(link, "#request/") {
			t.Fatalf("the address is %s", link)
		}
		other := openTab(t, chrome, link)
		other.until(`document.getElementById("request").open && document.querySelector('.steps [data-kind="answer"]')`)
		other.expectComplaints() // that there is no such thing is one
		other.run(`location.hash = "#request/999"`)
		other.until(`document.getElementById("request-note").textContent.includes("Nothing is known of request 999")`)
	})

	t.Run("the flow", func(t *testing.T) {
		e, s := openPage(t, map[string]any{"one": child("demo", ""), "two": child("demo", "")}, nil)
		b := openTab(t, chrome, s.URL())
		call(t, e, "one", "echo", `{"text":"hello"}`)
		call(t, e, "two", "fail", `{"message":"no"}`)
		b.until(`document.querySelectorAll('#flow [data-kind="answer"]').length === 2`)
		const rows = `document.querySelectorAll("#flow li:not([data-kind=start])")`
		filter := func(id, value string) {
			b.run(`const f = document.getElementById(` + strconv.Quote(id) + `); f.value = ` + strconv.Quote(value) + `; f.dispatchEvent(new Event("input", {bubbles: true}))`)
		}
		filter("filter-kind", "requests")
		b.until(rows + `.length === 4`)
		filter("filter-server", "two")
		b.until(rows + `.length === 2`)
		filter("filter-kind", "trouble")
		b.until(rows + `.length === 1 && ` + rows + `[0].textContent.includes("tool-error")`)
		filter("filter-kind", "")
		filter("filter-server", "")
		filter("filter-type", "transition")
		b.until(rows + `.length > 3 && [...` + rows + `].every((r) => r.dataset.kind === "transition")`)
		filter("filter-type", "")
		number := eval[string](b, `document.querySelector("#flow a").textContent`)
		filter("filter-request", number)
		b.until(rows + `.length > 3 && [...` + rows + `].every((r) => r.querySelector("a").textContent === ` + strconv.Quote(number) + `)`)
		filter("filter-request", "")

		b.run(`document.getElementById("pause").click()`)
		before := eval[int](b, rows+`.length`)
		call(t, e, "one", "echo", `{"text":"again"}`)
		b.until(`/^Paused: [0-9]+ new/.test(document.getElementById("flow-note").textContent)`)
		if after := eval[int](b, rows+`.length`); after != before {
			t.Errorf("the paused list grew from %d to %d", before, after)
		}
		b.run(`document.getElementById("pause").click()`)
		b.until(rows + `.length > ` + strconv.Itoa(before))
		// However much is said, the list is bounded and changes seldom.
		b.run(`window.changes = 0; new MutationObserver(() => window.changes++).observe(document.getElementById("flow"), {childList: true}); window.since = performance.now()`)
		for range 200 {
			call(t, e, "one", "echo", `{"text":"much"}`)
		}
		b.until(`Number(document.getElementById("calls-total").textContent) === 203`)
		b.until(`document.querySelectorAll("#flow li").length === 500`)
		if rate := eval[float64](b, `window.changes / ((performance.now() - window.since) / 1000 + 0.2)`); rate > 20 {
			t.Errorf("the list changes %.1f times a second", rate)
		}
	})

	t.Run("keyboard alone", func(t *testing.T) {
		e, s := openPage(t, map[string]any{"demo": child("demo", "")}, nil)
		b := openTab(t, chrome, s.URL())
		call(t, e, "demo", "echo", `{"text":"hello"}`)
		b.until(`document.querySelectorAll('#flow [data-kind="answer"]').length === 1`)
		b.tabTo(".skip")
		b.do(chromedp.KeyEvent(enter))
		b.until(`document.activeElement.id === "servers"`)
		b.tabTo("#pause")
		b.do(chromedp.KeyEvent(enter))
		b.until(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
		b.do(chromedp.KeyEvent(enter))
		b.tabTo("#flow a.request")
		b.do(chromedp.KeyEvent(enter))
		b.until(`document.getElementById("request").open && document.querySelector(".steps li")`)
		b.until(`document.getElementById("request").contains(document.activeElement)`)
		b.do(chromedp.KeyEvent(escape))
		b.until(`!document.getElementById("request").open && document.activeElement.matches("#flow a.request") && location.hash === ""`)
		b.run(`document.getElementById("catalog").focus()`) // what lies between are many requests
		b.tabTo("#query")
		b.do(chromedp.KeyEvent("keep a note" + enter))
		b.until(`document.querySelector("#matches h3").textContent === "notes_add"`)
		b.tabTo("#matches button")
		b.do(chromedp.KeyEvent(enter))
		b.until(`document.querySelector("#matches pre").textContent.includes("inputSchema")`)
		b.do(chromedp.KeyEvent(enter))
		b.until(`document.querySelector("#matches pre").hidden`)
		b.run(`document.getElementById("query").focus()`)
		b.do(chromedp.KeyEvent(escape))
		b.until(`document.getElementById("query").value === "" && !document.querySelector("#matches li")`)
	})

	t.Run("texts of a hostile server are inert", func(t *testing.T) {
		e, s := openPage(t, map[string]any{
			"hostile":       child("hostile", attack),
			"<i>italic</i>": child("demo", attack, "--exit-at-start", "3", "--exit-text", "fatal: "+attack),
		}, nil)
		b := openTab(t, chrome, s.URL())
		b.until(`document.querySelector('[data-server="hostile"] .description').textContent.includes("onerror")`)
		_, _ = e.Execute(t.Context(), "<i>italic</i>", "x", nil, metamcp.ExecuteOptions{})                       // it ends with an attack on stderr
		_, _ = e.Execute(t.Context(), "hostile", "<b>bold</b>", json.RawMessage(`{}`), metamcp.ExecuteOptions{}) // so does this one
		_, _ = e.Execute(t.Context(), "hostile", "<script>1</script>", nil, metamcp.ExecuteOptions{})            // there is no such tool
		b.until(`[...document.querySelectorAll("#server-list h3")].some((h) => h.textContent === "<i>italic</i>")`)
		b.until(`[...document.querySelectorAll("#server-list .error")].some((p) => p.textContent.includes("onerror"))`)
		b.run(`document.getElementById("query").value = "hostile tool"; document.getElementById("search").requestSubmit()`)
		b.until(`[...document.querySelectorAll("#matches h3")].some((h) => h.textContent === "<b>bold</b>")`)
		b.run(`document.querySelector("#matches button").click()`)
		b.until(`document.querySelector("#matches pre").textContent.includes("<script>")`)
		b.until(`document.querySelector('#flow [data-kind="answer"] a')`)
		b.run(`document.querySelector('#flow [data-kind="answer"] a').click()`)
		b.until(`document.querySelector(".steps li")`)
		if title := eval[string](b, "document.title"); title != "metamcp" {
			t.Errorf("the title is %q", title)
		}
		if n := eval[int](b, `document.querySelectorAll("main script, main img, main i, main b, dialog script, dialog img, dialog b").length`); n != 0 {
			t.Errorf("%d elements are made of texts", n)
		}
	})
}
