package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

func contentServer(t testing.TB, flags ...string) map[string]any {
	t.Helper()
	return testkit.DemoServer(t, append([]string{"--content"}, flags...)...)
}

// ours leaves of a modern answer what the server itself said.
func (c *client) ours(t testing.TB, own, via json.RawMessage, info string) json.RawMessage {
	t.Helper()
	if !c.modern {
		return via
	}
	if own != nil && !strings.Contains(string(own), `"ttlMs"`) {
		via = []byte(strings.Replace(string(via), `"ttlMs":0,"cacheScope":"private",`, "", 1))
	}
	return withoutSplices(t, own, via, info)
}

// What a server has beside tools is read through metamcp as without it, in all
// pairs of eras: lists, resources, prompts and what completes them.
func TestContentIsThatOfADirectConnection(t *testing.T) {
	t.Parallel()
	type request struct{ method, params string }
	subjects := map[string]struct {
		modern   bool
		entry    func(t testing.TB) map[string]any
		requests []request
	}{
		"everything": {false, everythingEntry, []request{
			{"resources/read", `{"uri":"demo://resource/dynamic/text/1"}`},
			{"resources/read", `{"uri":"demo://resource/static/document/architecture.md"}`},
			{"resources/read", `{"uri":"demo://resource/none"}`},
			{"prompts/get", `{"name":"simple-prompt"}`},
			{"prompts/get", `{"name":"args-prompt","arguments":{"city":"Paris","state":"Texas"}}`},
			{"prompts/get", `{"name":"args-prompt"}`},
			{"prompts/get", `{"name":"resource-prompt","arguments":{"resourceType":"Text","resourceId":"1"}}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"completable-prompt"},"argument":{"name":"department","value":"E"}}`},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},"argument":{"name":"resourceId","value":"1"}}`},
		}},
	}
	for era, modern := range map[string]bool{"legacy": false, "modern": true} {
		subjects["demo "+era] = struct {
			modern   bool
			entry    func(t testing.TB) map[string]any
			requests []request
		}{modern, func(t testing.TB) map[string]any {
			return contentServer(t, "--name", "d", "--era", era, "--resources", "30", "--page-size", "7")
		}, []request{
			{"resources/read", `{"uri":"demo://d/static"}`},
			{"resources/read", `{"uri":"demo://d/item/a%20b%2Fc"}`},
			{"resources/read", `{"x":[1.0,"\u00e9"],"uri":"demo:\/\/d\/binary"}`},
			{"resources/read", `{"uri":"nobody://x"}`},
			{"prompts/get", `{"name":"greet","arguments":{"who":"<ü>"}}`},
			{"prompts/get", `{"name":"greet"}`},
			{"prompts/get", `{"name":"odd name: \"<ü>\"/."}`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"A"},"context":{"arguments":{}}}`},
			{"completion/complete", `{"ref":{"uri":"demo://d/item/{id}","type":"ref/resource"},"argument":{"name":"id","value":"1"}}`},
		}}
	}
	lists := []struct{ method, member, key string }{
		{"resources/list", "resources", "uri"}, {"resources/templates/list", "resourceTemplates", "uriTemplate"}, {"prompts/list", "prompts", "name"},
	}
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bare := direct(t, s.entry(t), s.modern)
			for _, modern := range []bool{false, true} {
				via := exposing(t, modern, servers{"x": s.entry(t)}, "prompts,resources", "--expose-prefix=none")
				info := ""
				if modern {
					info = serverInfo(t, via)
				}
				for _, l := range lists {
					sameItems(t, via, bare, l.method, l.member, l.key)
				}
				for _, r := range s.requests {
					result, failure := bare.ask(r.method, r.params)
					viaResult, viaFailure := via.ask(r.method, r.params)
					same(t, r.method+r.params, result, via.ours(t, result, viaResult, info))
					same(t, r.method+r.params, failure, viaFailure)
				}
			}
		})
	}
}

// Servers that call different things the same are told apart; nothing is read
// from the wrong one.
func TestSameResourcesOfSeveralServers(t *testing.T) {
	t.Parallel()
	c := exposing(t, false, servers{"a": contentServer(t, "--name", "a", "--same-uris"), "b c": contentServer(t, "--name", "b", "--same-uris")}, "prompts,resources")
	list, order := c.items("resources/list", "resources", "uri")
	for _, uri := range []string{"metamcp://a/demo://same/static", "metamcp://b%20c/demo://same/static"} {
		if list[uri] == nil {
			t.Errorf("%s is not in %q", uri, order)
		}
	}
	for uri, want := range map[string]string{
		"metamcp://a/demo://same/static": "static of a", "metamcp://b%20c/demo://same/static": "static of b",
		"metamcp://b%20c/demo://same/item/x%2Fy": "item/x%2Fy of b", "metamcp://a/hidden://a/z": "z of a",
	} {
		if result, failure := c.ask("resources/read", `{"uri":`+quote(uri)+`}`); !strings.Contains(string(result), want) {
			t.Errorf("%s: %s %s, want %s", uri, result, failure, want)
		}
	}
	for uri, want := range map[string]string{
		"demo://same/static": "metamcp://b%20c/demo://same/static", "demo://same/item/7": "several servers", "nobody://x": "metamcp://SERVER/", "metamcp://none/x": "SERVER_NOT_FOUND",
		"": "required", "metamcp://": "no server",
	} {
		if result, failure := c.ask("resources/read", `{"uri":`+quote(uri)+`}`); result != nil || !strings.Contains(string(failure), want) {
			t.Errorf("%s: %s %s, want an error with %s", uri, result, failure, want)
		}
	}
	templates, order := c.items("resources/templates/list", "resourceTemplates", "uriTemplate")
	if templates["metamcp://a/demo://same/item/{id}"] == nil {
		t.Errorf("templates are %q", order)
	}
	prompts, order := c.items("prompts/list", "prompts", "name")
	if prompts["a__greet"] == nil || prompts["b_c__greet"] == nil || len(order) != 4 {
		t.Errorf("prompts are %q", order)
	}
	for _, name := range order {
		if !strings.Contains(name, "odd") {
			continue
		}
		if result, failure := c.ask("prompts/get", `{"name":`+quote(name)+`}`); !strings.Contains(string(result), `"odd"`) {
			t.Errorf("%s: %s %s", name, result, failure)
		}
	}
	if result, failure := c.ask("prompts/get", `{"name":"b_c__greet","arguments":{"who":"you"}}`); !strings.Contains(string(result), "Greet you from b") {
		t.Errorf("%s %s", result, failure)
	}
	if result, failure := c.ask("completion/complete", `{"ref":{"type":"ref/prompt","name":"b_c__greet"},"argument":{"name":"who","value":"A"}}`); !strings.Contains(string(result), "A-ref/prompt-b") {
		t.Errorf("%s %s", result, failure)
	}
	if result, failure := c.ask("completion/complete", `{"ref":{"type":"ref/resource","uri":"metamcp://a/demo://same/item/{id}"},"argument":{"name":"id","value":"A"}}`); !strings.Contains(string(result), "A-ref/resource-a") {
		t.Errorf("%s %s", result, failure)
	}
	if _, failure := c.ask("prompts/get", `{"name":"greet"}`); !strings.Contains(string(failure), "PROMPT_NOT_FOUND") {
		t.Error(string(failure))
	}
	if _, failure := c.ask("completion/complete", `{"ref":{"type":"ref/none"}}`); !strings.Contains(string(failure), "ref.type") {
		t.Error(string(failure))
	}
	if _, failure := c.ask("resources/read", `[]`); !strings.Contains(string(failure), "-32602") {
		t.Error(string(failure))
	}
}

// With nothing exposed, what results link to can be read all the same.
func TestLinksInResultsAreReadable(t *testing.T) {
	t.Parallel()
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := servers{"a": contentServer(t, "--name", "a", "--era", name), "b": contentServer(t, "--name", "b")}
			c := rawHost(t, entries, nil)
			if c.modern = modern; !modern {
				c.Handshake()
			}
			if list, _ := c.items("resources/list", "resources", "uri"); len(list) != 0 {
				t.Errorf("%d resources are listed", len(list))
			}
			read := func(uri string) (string, string) {
				result, failure := c.ask("resources/read", `{"uri":`+quote(uri)+`}`)
				return string(result), string(failure)
			}
			if result, failure := read("hidden://a/x"); result != "" || !strings.Contains(failure, "Name its server") {
				t.Errorf("nobody named it: %s %s", result, failure)
			}
			c.call("a", "link", `{"uri":"hidden://a/x"}`)
			if result, failure := read("hidden://a/x"); !strings.Contains(result, "x of a") {
				t.Errorf("it was named: %s %s", result, failure)
			}
			if result, failure := read("hidden://a/y"); result != "" || !strings.Contains(failure, "Name its server") {
				t.Errorf("nobody named this one: %s %s", result, failure)
			}
			code := `const r = await servers.a.link({uri: "hidden://a/y"}, {raw: true}); return r.content.length`
			if result, failure := c.ask("tools/call", `{"name":"mcp_execute","arguments":{"code":`+quote(code)+`}}`); failure != nil || strings.Contains(string(result), `"isError":true`) {
				t.Errorf("the script: %s %s", result, failure)
			}
			if result, failure := read("hidden://a/y"); !strings.Contains(result, "y of a") {
				t.Errorf("a script heard its name: %s %s", result, failure)
			}
			if result, failure := read("demo://b/item/5"); !strings.Contains(result, "item/5 of b") {
				t.Errorf("a template fits: %s %s", result, failure)
			}
			if _, failure := c.ask("prompts/list", `{}`); !strings.Contains(string(failure), "-32601") {
				t.Errorf("prompts: %s", failure)
			}
			if _, failure := c.ask("tasks/get", `{"taskId":"x"}`); !strings.Contains(string(failure), "TASK_NOT_FOUND") {
				t.Errorf("tasks: %s", failure)
			}
		})
	}
}

// A task goes to the client that takes tasks, as it came, and what is asked of it to
// the server that made it.
func TestTasksPass(t *testing.T) {
	t.Parallel()
	c := exposing(t, true, servers{"a": contentServer(t, "--name", "a", "--era", "modern"), "b": contentServer(t, "--name", "b", "--era", "modern")}, "resources")
	const takes = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",` +
		`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	asking := func(method, params string) string {
		id := c.id()
		c.Send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + strings.TrimSuffix(params, "}") + `,` + takes + `}}`))
		result, failure := c.answer(id)
		return string(result) + string(failure)
	}
	if got := textOf(t, c.call("b", "defer", `{}`)); got != "the client takes no tasks" {
		t.Error(got)
	}
	if got := asking("tasks/get", `{"taskId":"b-1"}`); !strings.Contains(got, "TASK_NOT_FOUND") {
		t.Errorf("nobody was given it: %s", got)
	}
	if got := asking("tools/call", callParams("b", "defer", `{}`)); !strings.Contains(got, `"resultType":"task","taskId":"b-1","status":"working","pollInterval":1.50`) {
		t.Errorf("the task is %s", got)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel"} {
		if got := asking(method, `{"taskId":"b-1"}`); !strings.Contains(got, `"status":"`+method+`","given":null`) {
			t.Errorf("%s: %s", method, got)
		}
	}
	if got := asking("tasks/update", `{"taskId":"b-1","inputResponses":{"q":{"x":1.0}}}`); !strings.Contains(got, `"given":{"q":{"x":1.0}}`) {
		t.Errorf("tasks/update: %s", got)
	}
}

// Who subscribed to a resource hears of its changes, whatever the eras, also
// after its server was started anew, and not any more when it unsubscribed.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	const method = "notifications/resources/updated"
	for client, modern := range map[string]bool{"legacy client": false, "modern client": true} {
		for _, era := range []string{"legacy", "modern"} {
			t.Run(client+", "+era+" server", func(t *testing.T) {
				t.Parallel()
				// One that is ended when it is idle would forget what was touched.
				entry := with(contentServer(t, "--name", "a", "--era", era), "lifecycle", "ephemeral")
				c := exposing(t, modern, servers{"a": entry}, "resources")
				const uri = "metamcp://a/demo://a/static"
				touch := func() { c.call("a", "touch", `{"uri":"demo://a/static"}`) }
				listen := ""
				if modern {
					listen = c.request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["`+uri+`","demo://a/static"]}}`)
					if ack := c.Notification("notifications/subscriptions/acknowledged"); !strings.Contains(string(ack), uri) {
						t.Fatalf("acknowledged is %s", ack)
					}
				} else {
					c.resultOf(c.request("resources/subscribe", `{"uri":"`+uri+`"}`))
				}
				touch()
				note := string(c.Notification(method))
				if modern {
					if second := string(c.Notification(method)); strings.Contains(second, uri) == strings.Contains(note, uri) {
						t.Errorf("both subscriptions have the same URI: %s, %s", note, second)
					}
				}
				if !modern && (!strings.Contains(note, uri) || strings.Contains(note, "subscriptionId")) || modern && !strings.Contains(note, `"io.modelcontextprotocol/subscriptionId":`+listen) {
					t.Errorf("the notification is %s", note)
				}
				touch()
				if result, failure := c.ask("resources/read", `{"uri":"`+uri+`"}`); !strings.Contains(string(result), "touched 2 times") {
					t.Errorf("the server was ended between: %s %s", result, failure)
				}

				c.call("a", "crash", `{}`)
				eventually(t, "the subscription is renewed", func() bool {
					for _, l := range c.Unread() {
						_ = l // what came before the crash
					}
					touch()
					_, err := c.Match(2*time.Second, func(l testkit.Line) bool { return l.Method == method })
					return err == nil
				})

				if modern {
					c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + listen + `}}`))
				} else {
					c.resultOf(c.request("resources/unsubscribe", `{"uri":"`+uri+`"}`))
				}
				eventually(t, "the server is ended when it is idle", func() bool {
					result, _ := c.ask("resources/read", `{"uri":"`+uri+`"}`)
					touch()
					return strings.Contains(string(result), "touched 0 times")
				})
			})
		}
	}
}

// A server refuses what it does not have; the client is told in the server's own
// words.
func TestSubscriptionsAreRefused(t *testing.T) {
	t.Parallel()
	c := exposing(t, false, servers{"a": testkit.DemoServer(t, "--name", "a", "--era", "legacy")}, "resources")
	if _, failure := c.ask("resources/subscribe", `{"uri":"metamcp://a/x:y"}`); !strings.Contains(string(failure), "method not found: resources/subscribe") {
		t.Error(string(failure))
	}
	if result, failure := c.ask("resources/unsubscribe", `{"uri":"never://subscribed"}`); string(result) != `{}` {
		t.Error(string(failure))
	}
}

// A list of resources that changes is told; one that only says so is not.
func TestResourcesChange(t *testing.T) {
	t.Parallel()
	const method = "notifications/resources/list_changed"
	c := exposing(t, false, servers{"a": contentServer(t, "--name", "a")}, "resources")
	before, _ := c.items("resources/list", "resources", "uri")
	for range 200 {
		c.call("a", "grow", `{"idle":true}`)
	}
	c.call("a", "grow", `{}`)
	c.Notification(method)
	after, _ := c.items("resources/list", "resources", "uri")
	if len(after) != len(before)+1 {
		t.Errorf("%d resources, then %d", len(before), len(after))
	}
	for range 200 {
		c.call("a", "grow", `{}`)
	}
	eventually(t, "all are listed", func() bool {
		all, _ := c.items("resources/list", "resources", "uri")
		return len(all) == len(before)+201
	})
	told := 0
	for _, l := range c.Unread() {
		if l.Method == method {
			told++
		}
	}
	if told > 100 {
		t.Errorf("%d notifications for 200 changes", told)
	}
}

// Lists of any size and shape are taken within bounds, and what is left out of
// them can be read.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	c := exposing(t, false, servers{
		"many": contentServer(t, "--name", "many", "--resources", "100000", "--page-size", "5000"),
		"long": contentServer(t, "--name", "long", "--long-uri"), "endless": contentServer(t, "--name", "endless", "--endless-cursors"),
	}, "resources")
	list, _ := c.items("resources/list", "resources", "uri")
	count := map[string]int{}
	for uri := range list {
		name, _, _ := strings.Cut(strings.TrimPrefix(uri, "demo://"), "/")
		count[name]++
	}
	if count["many"] != 100_002 || count["long"] != 2 || count["endless"] == 0 || count["endless"] > 10_000 {
		t.Errorf("listed are %v", count)
	}
	long := strings.Repeat("x", 1<<20)
	for _, uri := range []string{"metamcp://long/demo://long/" + long, "metamcp://long/nobody://" + long} {
		result, failure := c.ask("resources/read", `{"uri":"`+uri+`"}`)
		if ok := strings.Contains(string(result), "of long"); ok != strings.Contains(uri, "demo:") && failure != nil {
			t.Errorf("%.40s: %.300s %.300s", uri, result, failure)
		}
	}
	if _, failure := c.ask("resources/read", `{"uri":"nobody://`+long+`"}`); len(failure) > 10_000 || failure == nil {
		t.Errorf("the error has %d bytes", len(failure))
	}
}
