package metamcp

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

// completing answers for a server that completes its prompt and its template.
func completing(method string) string {
	switch method {
	case "initialize":
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}},"serverInfo":{"name":"x","version":"1"}}`
	case methodToolsList:
		return `"result":{"tools":[]}`
	case methodPrompts:
		return `"result":{"prompts":[{"name":"greet"}]}`
	case methodResources:
		return `"result":{"resources":[]}`
	case methodTemplates:
		return `"result":{"resourceTemplates":[{"name":"t","uriTemplate":"x://{id}"}]}`
	case methodComplete:
		return `"result":{"completion":{"values":["one"]}}`
	case "ping":
		return `"result":{}`
	}
	return noSuchMethod
}

// Completion is had for what is exposed, and for nothing else, also where the method
// itself is there for the sake of the other kind.
func TestCompletionIsForWhatIsExposed(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveRPC(w, r, completing) }))
	t.Cleanup(web.Close)
	for expose, want := range map[string]struct{ prompt, resource messages.Code }{
		`"prompts"`:             {"", messages.CodeResourceNotFound},
		`"resources"`:           {messages.CodePromptNotFound, ""},
		`"prompts","resources"`: {"", ""},
	} {
		t.Run(expose, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "mcp.json")
			text := fmt.Sprintf(`{"mcpServers":{"x":{"url":%q}},"metamcp":{"expose":[%s],"exposePrefix":"none"}}`, web.URL, expose)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e := opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
			p := clientOf(t, e)
			defer p.close()
			for ref, code := range map[string]messages.Code{
				`{"type":"ref/prompt","name":"greet"}`:            want.prompt,
				`{"type":"ref/resource","uri":"x://{id}"}`:        want.resource,
				`{"type":"ref/resource","uri":"metamcp://x/x:y"}`: want.resource,
			} {
				answer := make(answered, 1)
				p.Ask(front.Ask{
					Request: front.Request{Call: front.NextCall(), Params: []byte(`{"ref":` + ref + `,"argument":{"name":"id","value":"o"}}`), Reply: answer},
					Method:  methodComplete, Peer: &front.Peer{},
				})
				select {
				case a := <-answer:
					got := messages.Code("")
					if a.Err != nil {
						got = a.Err.Code
					}
					if got != code || (a.Result == nil) != (code != "") {
						t.Errorf("%s: %v, %s; want the code %q", ref, a.Err, a.Result, code)
					}
				case <-time.After(time.Minute):
					t.Fatal("no answer")
				}
			}
		})
	}
}
