package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/metamcp/metamcp"
)

var update = flag.Bool("update", false, "write the screenshots of docs anew")

// view is one look at the page.
type view struct {
	name          string
	width, height int64
	dark          bool
	request       bool // with a request opened
}

var views = []view{
	{"web", 1280, 1180, false, false},
	{"web-dark", 1280, 1180, true, false},
	{"web-phone", 390, 844, false, false},
	{"web-request", 1280, 860, false, true},
	{"web-phone-request", 390, 844, true, true},
}

// TestScreens looks at the page in every width and scheme. Nothing may reach
// beyond the screen, and every text has contrast. With -update it writes
// docs/*.png.
func TestScreens(t *testing.T) {
	chrome := browser(t)
	e, s := openPage(t, map[string]any{
		"files":    child("demo", "Reads and writes files below the project folder", "--name", "files"),
		"github":   child("demo", "Issues, pull requests and code of GitHub", "--name", "github", "--tools", "38"),
		"postgres": child("demo", "Queries the staging database, read-only", "--name", "postgres"),
		"browser":  child("demo", "Drives a headless browser", "--exit-at-start", "3", "--exit-text", "fatal: no display, and no headless mode in this build"),
		"search":   child("demo", "Searches the web"),
	}, map[string]any{"pool": map[string]any{"poolSize": 16, "resPoolSize": 2}})
	b := openTab(t, chrome, s.URL())
	call(t, e, "files", "echo", `{"text":"notes/today.md"}`)
	call(t, e, "github", "notes_add", `{"text":"x"}`)
	for range 6 {
		_, _ = e.Execute(t.Context(), "browser", "open", nil, metamcp.ExecuteOptions{}) // it fails, and is shown
	}
	call(t, e, "files", "fail", `{"message":"no such file"}`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = e.Execute(ctx, "postgres", "slow", json.RawMessage(`{"ms":120000}`), metamcp.ExecuteOptions{}) // ends with the test
	}()
	defer func() { cancel(); <-done }()
	b.until(`document.querySelector('[data-server="postgres"]').dataset.state === "ACTIVE"`)
	b.until(`document.querySelector('[data-server="browser"] .error').textContent.includes("no display")`)
	b.until(`document.querySelectorAll('#flow [data-kind="answer"]').length >= 4`)
	b.run(`document.getElementById("query").value = "add a note"; document.getElementById("search").requestSubmit()`)
	b.until(`document.querySelectorAll("#matches li").length > 0`)
	call(t, e, "github", "notes_add", `{"text":"release on Monday"}`)
	b.until(`document.querySelectorAll('#flow [data-kind="answer"]').length >= 5`)
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) { look(t, b, v) })
	}
}

func look(t *testing.T, b *tab, v view) {
	t.Helper()
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(v.width, v.height))
	hash := "#main"
	if v.request {
		hash = eval[string](b, `[...document.querySelectorAll('#flow [data-kind="answer"] a')].at(-1).getAttribute("href")`)
	}
	b.run(`location.hash = ` + strconv.Quote(hash) + `; scrollTo(0, 0)`)
	if v.request {
		b.until(`document.getElementById("request").open && document.querySelectorAll(".steps li").length > 5`)
	} else {
		b.until(`!document.getElementById("request").open`)
		b.run(`document.activeElement.blur(); scrollTo(0, 0)`)
	}
	if wide := eval[string](b, beyond); wide != "" {
		t.Errorf("beyond the screen of %d pixels: %s", v.width, wide)
	}
	if faint := eval[string](b, contrast); faint != "" {
		t.Errorf("too little contrast: %s", faint)
	}
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	if got := int64(picture.Bounds().Dx()); got != v.width {
		t.Errorf("the picture is %d pixels wide, want %d", got, v.width)
	}
	if *update {
		save(t, filepath.Join("..", "..", "docs", v.name+".png"), picture)
	}
}

// save writes a picture with 256 colours, a quarter of its size otherwise.
func save(t *testing.T, path string, picture image.Image) {
	t.Helper()
	small := image.NewPaletted(picture.Bounds(), colours(picture))
	draw.Draw(small, small.Bounds(), picture, picture.Bounds().Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// colours returns the most frequent colours of a picture, at most 256.
func colours(picture image.Image) color.Palette {
	count := map[color.RGBA]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			if c, ok := color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA); ok {
				count[c]++
			}
		}
	}
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return count[b] - count[a] })
	chosen := color.Palette{}
	for _, c := range all[:min(len(all), 256)] {
		chosen = append(chosen, c)
	}
	return chosen
}

// beyond names the elements that reach beyond the screen and cannot be scrolled
// to within what holds them.
const beyond = `(() => {
  const out = [];
  for (const e of document.querySelectorAll("body *")) {
    const box = e.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1 || e.closest(".sequence") || e.closest("pre")) continue;
    out.push(e.tagName + "." + (e.getAttribute("class") || e.id) + " " + Math.round(box.right));
  }
  if (document.documentElement.scrollWidth > innerWidth) out.push("the page itself");
  return out.slice(0, 5).join(", ");
})()`

// contrast names texts with less than 4.5:1.
const contrast = `(() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length === 3 ? [...m, 1] : m; };
  const over = (top, under) => top.slice(0, 3).map((v, i) => v * top[3] + under[i] * (1 - top[3]));
  const lum = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const list = []; for (let n = e; n; n = n.parentElement) list.unshift(parse(getComputedStyle(n).backgroundColor)); return list.reduce((under, c) => over(c, under), [255, 255, 255]); };
  const out = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) && !e.matches("input, select")) continue;
    if (e.matches("script, noscript, noscript *, option") || !e.getClientRects().length || e.closest("svg")) continue;
    const back = behind(e), front = over(parse(getComputedStyle(e).color), back);
    const [a, b] = [lum(front), lum(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) out.add(e.tagName + "." + (e.getAttribute("class") || e.id) + " " + ratio.toFixed(2));
  }
  return [...out].slice(0, 8).join(", ");
})()`
