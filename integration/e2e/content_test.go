package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

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
		}{modern, func(t testing.TB) map[string]any { return contentServer(t, "--name", "d", "--era", era, "--resources", "30", "--page-size", "7") }, []request{
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
