package rank

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestFirstHit(t *testing.T) {
	ix := build(shop)
	for query, want := range map[string]string{
		// Words, their forms and kin.
		"list pods":                              "kube/pods_list",
		"screenshot":                             "browser/take_screenshot",
		"I need to list all the open issues":     "github/list_issues",
		"listing tables in the database":         "postgres/list_tables",
		"what is the weather forecast for Paris": "weather/get_forecast",
		"delete a file":                          "files/delete_file",
		"remove a file":                          "files/delete_file",
		"erase the secret":                       "vault/keyvault_secret_delete",
		"show me a secret's value":               "vault/keyvault_secret_get",
		"address to coordinates":                 "maps/geocode",
		"send a mail with attachments":           "mail/send_email",
		"ticker symbol":                          "finance/get_stock_price",
		// Joined and split forms.
		"create a key vault secret": "vault/keyvault_secret_create",
		"get exchange rate":         "finance/getExchangeRate",
		"save pdf":                  "browser/savePdf",
		"piechart":                  "charts/generate_pie_chart",
		"postmessage":               "slack/slack_post_message",
		"upload to s3":              "s3/s3_upload",
		// Misspelt words.
		"scrennshot":           "browser/take_screenshot",
		"kubernets pods":       "kube/pods_list",
		"list calender events": "calendar/list_events",
		"wether forcast":       "weather/get_forecast",
		"folder listting":      "files/list_directory",
		// Other scripts.
		"股票价格": "finance/查询股票",
		"ＳＣＲＥＥＮＳＨＯＴ of páge": "browser/take_screenshot",
	} {
		hits := ix.Search(Query{Text: query})
		if len(hits) == 0 || names(shop, hits)[0] != want {
			t.Errorf("%q: %v, want %s first", query, names(shop, hits[:min(3, len(hits))]), want)
			continue
		}
		if hits[0].Score < 0.5 {
			t.Errorf("%q: score %.2f of the right tool", query, hits[0].Score)
		}
	}
}

func TestJoinedFormsMeetBothWays(t *testing.T) {
	docs := []Doc{
		{Server: "a", Tool: "keyvault_list", Description: "Lists what there is"},
		{Server: "b", Tool: "key_vault_show", Description: "Shows what there is"},
		{Server: "c", Tool: "other", Description: "Does another thing"},
		{Server: "d", Tool: "GitHubSync", Description: "Synchronises"},
	}
	ix := build(docs)
	for _, query := range []string{"keyvault", "key vault", "KeyVault", "key-vault"} {
		got := names(docs, ix.Search(Query{Text: query}))
		slices.Sort(got)
		if !slices.Equal(got, []string{"a/keyvault_list", "b/key_vault_show"}) {
			t.Errorf("%q: %v", query, got)
		}
	}
	for _, query := range []string{"github sync", "git hub"} {
		if got := names(docs, ix.Search(Query{Text: query})); len(got) != 1 || got[0] != "d/GitHubSync" {
			t.Errorf("%q: %v", query, got)
		}
	}
}

func TestExactNamesComeFirst(t *testing.T) {
	docs := append(slices.Clone(shop),
		Doc{Server: "x", Tool: "screenshots", Description: "take_screenshot take_screenshot take screenshot of the page, an element, a screenshot"},
		Doc{Server: "do", Tool: "do_it", Description: ""},
		Doc{Server: "web", Tool: "search", Description: "Anything"},
	)
	ix := build(docs)
	for query, want := range map[string]string{
		"take_screenshot": "browser/take_screenshot",
		"Take Screenshot": "browser/take_screenshot",
		"takeScreenshot":  "browser/take_screenshot",
		"please use `take_screenshot` on the page": "browser/take_screenshot",
		"call browser/take_screenshot, then stop":  "browser/take_screenshot",
		"browser.take_screenshot":                  "browser/take_screenshot",
		"browser:take_screenshot":                  "browser/take_screenshot",
		"browser__take_screenshot":                 "browser/take_screenshot",
		"do_it":                                    "do/do_it",
		"SEARCH":                                   "web/search",
		"web/search":                               "web/search",
		"finance:查询股票":                             "finance/查询股票",
	} {
		hits := ix.Search(Query{Text: query})
		if len(hits) == 0 || names(docs, hits)[0] != want || !hits[0].Exact || hits[0].Score != 1 {
			t.Errorf("%q: %v %+v", query, names(docs, hits[:min(2, len(hits))]), hits[:min(1, len(hits))])
		}
	}
	// A name that is a plain word is a word of the sentence.
	for _, query := range []string{"search the source code", "SEARCH the source code"} {
		for _, h := range ix.Search(Query{Text: query}) {
			if h.Exact {
				t.Errorf("%q: %s is exact", query, names(docs, []Hit{h})[0])
			}
		}
	}
}

func TestServerOrTagAlone(t *testing.T) {
	docs := slices.Clone(shop)
	docs = append(docs, Doc{Server: "zoo", Tool: "feed", Description: "Feeds animals", Tags: []string{"daily-work"}},
		Doc{Server: "zz", Tool: "kube_report", Description: "kube kube kube"})
	ix := build(docs)
	got := names(docs, ix.Search(Query{Text: "Kube"}))
	if want := []string{"kube/pods_list", "kube/pods_delete", "kube/pods_log", "kube/deployments_scale"}; len(got) != 5 {
		t.Errorf("%v", got)
	} else {
		first := slices.Clone(got[:4])
		slices.Sort(first)
		slices.Sort(want)
		if !slices.Equal(first, want) || got[4] != "zz/kube_report" {
			t.Errorf("%v", got)
		}
	}
	if got := names(docs, ix.Search(Query{Text: "daily work"})); len(got) == 0 || got[0] != "zoo/feed" {
		t.Errorf("%v", got)
	}
}

func TestSeveralNeeds(t *testing.T) {
	ix := build(shop)
	got := names(shop, ix.Search(Query{Text: "Read the sales numbers from a file. Draw a bar chart of them by month. " +
		"Then post the picture to the team's channel, and create an event in the calendar to talk about it.", Limit: 6}))
	for _, want := range []string{"files/read_file", "charts/generate_bar_chart", "slack/slack_post_message", "calendar/create_event"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %v", want, got)
		}
	}
}

func TestConnectedAtTheMargin(t *testing.T) {
	docs := []Doc{
		{Server: "a", Tool: "note_add", Description: "Add a note"},
		{Server: "b", Tool: "note_add", Description: "Add a note"},
		{Server: "c", Tool: "draw", Description: "Draws a picture, and can add a line"},
	}
	ix := build(docs)
	on := func(which int) func(int) bool { return func(d int) bool { return d == which } }
	plain := ix.Search(Query{Text: "add note now"})
	if got := names(docs, plain); !slices.Equal(got, []string{"a/note_add", "b/note_add", "c/draw"}) || plain[0].Connected {
		t.Fatalf("%v", got)
	}
	biased := ix.Search(Query{Text: "add note now", Connected: on(1)})
	if got := names(docs, biased); got[0] != "b/note_add" || !biased[0].Connected || biased[1].Connected {
		t.Errorf("%v", got)
	}
	if biased[0].Score != plain[1].Score || biased[1].Score != plain[0].Score {
		t.Error("the reported score has a bias")
	}
	if got := names(docs, ix.Search(Query{Text: "add note now", Connected: on(2)})); got[2] != "c/draw" {
		t.Errorf("a connection beats a much better tool: %v", got)
	}
}

func TestNonsenseIsUnsure(t *testing.T) {
	ix := build(shop)
	for _, query := range []string{
		"xyzzy plugh", "qwfp zxcv arst", "the of and to", "🎉🎉🎉", "", "\x00", "???", strings.Repeat("x", 1<<20),
		"my grandmother's favourite colour was purple", ".*", "(((((((((((", "'; DROP --", "的",
	} {
		for _, h := range ix.Search(Query{Text: query}) {
			if h.Score >= 0.5 {
				t.Errorf("%.40q: %s at %.2f", query, names(shop, []Hit{h})[0], h.Score)
			}
		}
	}
}

func TestHostileQueriesEnd(t *testing.T) {
	ix := build(shop)
	for _, query := range []string{
		strings.Repeat("screenshot ", 10_000), strings.Repeat("a_b", 50_000), strings.Repeat("查", 50_000), strings.Repeat("\xff\x00", 50_000),
		strings.Repeat("Aa", 50_000), strings.Repeat("e\u0301", 50_000), strings.Repeat("one two three. ", 10_000), strings.Repeat("(a+)+$", 10_000),
	} {
		if hits := ix.Search(Query{Text: query, Limit: 5}); len(hits) > 5 {
			t.Errorf("%.20q: %d hits", query, len(hits))
		}
	}
}

func TestVectorsFindWhatWordsDoNot(t *testing.T) {
	ix := build(shop)
	at := slices.IndexFunc(shop, func(d Doc) bool { return d.Tool == "get_alerts" })
	rows := make([][]float32, len(shop))
	for i := range rows {
		rows[i] = []float32{0.6, 0.8}
	}
	rows[at] = []float32{1, 0}
	rows[3] = nil
	set := setOf(rows)
	query := Query{Text: "is a storm coming", Vectors: [][]float32{{1, 0}}, Docs: set}
	if got := names(shop, ix.Search(query)); len(got) == 0 || got[0] != "weather/get_alerts" {
		t.Errorf("%v", got)
	}
	// One that has no vector stands by its words.
	query.Text = "merge a pull request"
	if got := names(shop, ix.Search(query)); got[0] != "github/merge_pull_request" {
		t.Errorf("%v", got)
	}
	// Vectors of nothing, of another dimension, or of other documents change nothing.
	for _, q := range []Query{
		{Vectors: [][]float32{nil}, Docs: set}, {Vectors: [][]float32{{1, 2, 3}}, Docs: set}, {Docs: set},
		{Vectors: [][]float32{{1, 0}}, Docs: setOf(rows[:5])}, {Vectors: [][]float32{{1, 0}}},
	} {
		q.Text = "merge a pull request"
		want := ix.Search(Query{Text: q.Text})
		if got := ix.Search(q); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", names(shop, got), names(shop, want))
		}
	}
}

func TestOnlyWhatIsAllowed(t *testing.T) {
	ix := build(shop)
	allowed := func(d int) bool { return shop[d].Server == "vault" }
	for _, query := range []string{"delete a file", "take_screenshot", "kube", "secret", "list"} {
		for _, h := range ix.Search(Query{Text: query, Allowed: allowed}) {
			if !allowed(h.Doc) {
				t.Errorf("%q: %s", query, names(shop, []Hit{h})[0])
			}
		}
	}
	if hits := ix.Search(Query{Text: "secret", Allowed: func(int) bool { return false }}); len(hits) != 0 {
		t.Errorf("%v", hits)
	}
}

func TestLimit(t *testing.T) {
	var docs []Doc
	for range 1000 {
		docs = append(docs, Doc{Server: "s", Tool: "note", Description: "a note"})
	}
	ix := build(docs)
	for limit, want := range map[int]int{-1: 20, 0: 20, 1: 1, 7: 7, 100: 100, 5000: 1000} {
		hits := ix.Search(Query{Text: "note that", Limit: limit})
		if len(hits) != want {
			t.Errorf("limit %d: %d hits, want %d", limit, len(hits), want)
		}
		for i, h := range hits {
			if h.Doc != i {
				t.Errorf("limit %d: hit %d is document %d", limit, i, h.Doc)
				break
			}
		}
	}
	// A connected one is found among any number of equals.
	if hits := ix.Search(Query{Text: "note that", Limit: 1, Connected: func(d int) bool { return d == 990 }}); hits[0].Doc != 990 {
		t.Errorf("%+v", hits)
	}
}

func TestEmptyIndexes(t *testing.T) {
	for _, docs := range [][]*Terms{nil, {}, {nil}, {nil, nil}, {Analyze(Doc{})}} {
		if hits := Build(docs).Search(Query{Text: "anything at all"}); len(hits) != 0 {
			t.Errorf("%v", hits)
		}
	}
}

func TestOneIndexManySearches(t *testing.T) {
	docs := crowd(500)
	ix, again := build(docs), build(docs)
	queries := crowdQueries(50)
	want := make([][]Hit, len(queries))
	for i, q := range queries {
		want[i] = again.Search(Query{Text: q})
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i, q := range queries {
				if got := ix.Search(Query{Text: q}); !slices.Equal(got, want[i]) {
					t.Errorf("%q: another answer", q)
				}
			}
		})
	}
	all.Wait()
}
