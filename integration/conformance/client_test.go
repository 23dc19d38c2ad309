package conformance_test

import (
	"os"
	"slices"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// toolOfNobody is called where a scenario watches only what comes before a call.
const toolOfNobody = "tool-of-nobody"

// scenario is one of the suite's for clients: its server is the only child of
// metamcp.
type scenario struct {
	name  string
	calls []call // none: those that the suite wants
	// known are checks that do not pass, with the reason.
	known []string
}

type call struct{ tool, args string }

// asked is one run of the suite, which has all scenarios in one process: it starts
// slowly. Those that are not named here are of things that metamcp does not have,
// docs/OAUTH.md says which for authorization.
type asked struct {
	suite     string
	revision  string // "": the suite's default
	scenarios []scenario
}

var askedOfClients = []asked{
	{"all", "2025-11-25", slices.Concat([]scenario{
		{name: "initialize", calls: []call{{toolOfNobody, `{}`}}},
		{name: "tools_call", calls: []call{{"add_numbers", `{"a":5,"b":3}`}}},
		{name: "sse-retry", calls: []call{{"test_reconnection", `{}`}}},
	}, authorization(
		"metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate",
		"scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic",
		"token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration",
	))},
	{"all", "2026-07-28", slices.Concat([]scenario{
		{name: "tools_call", calls: []call{{"add_numbers", `{"a":5,"b":3}`}}},
		{name: "request-metadata", calls: []call{{toolOfNobody, `{}`}}},
		{name: "http-standard-headers", calls: []call{{"test_headers", `{}`}, {"my-hyphenated-tool", `{}`}}},
		// It has a null where the tool's schema wants a boolean, which metamcp
		// refuses before it sends anything.
		{name: "http-custom-headers", known: []string{"sep-2243-client-omit-null"}},
		{name: "http-invalid-tool-headers", calls: []call{{"valid_tool", `{"region":"x"}`}}},
		{name: "json-schema-ref-no-deref", calls: []call{{toolOfNobody, `{}`}}},
	}, authorization(
		"metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate",
		"scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic",
		"token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration", "resource-mismatch", "offline-access-scope",
		"offline-access-not-supported", "authorization-server-migration", "iss-supported", "iss-not-advertised", "iss-supported-missing",
		"iss-wrong-issuer", "iss-unexpected", "iss-normalized", "metadata-issuer-mismatch",
	))},
	{"backcompat", "2025-03-26", authorization("2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback")},
	{"extensions", "", authorization("client-credentials-jwt", "client-credentials-basic")},
}

// authorization are scenarios in which metamcp, told by its error that a login is
// needed, logs in; the test plays the browser.
func authorization(names ...string) []scenario {
	all := make([]scenario, 0, len(names))
	for _, name := range names {
		all = append(all, scenario{name: "auth/" + name, calls: []call{{"test-tool", `{}`}}})
	}
	return all
}

// metamcp as a client of servers over HTTP does what the protocol's own suite
// asks of clients.
func TestConformanceAsAClient(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range askedOfClients {
		t.Run(a.suite+" "+a.revision, func(t *testing.T) {
			t.Parallel()
			dir, s := t.TempDir(), newStage(t, testkit.PlainBinary(t), a.scenarios)
			args := []string{"client", "--command", self, "--suite", a.suite, "--timeout", "600000"}
			if a.revision != "" {
				args = append(args, "--spec-version", a.revision)
			}
			out := run(t, dir, []string{stageVariable + "=" + s.address}, args...)
			for _, sc := range a.scenarios {
				t.Run(sc.name, func(t *testing.T) {
					checks := checksOf(t, dir, sc.name)
					expect(t, sc.name, checks, sc.known)
					for _, c := range checks {
						if c.Status == "WARNING" {
							t.Errorf("%s warns: %s", c.ID, c.ErrorMessage)
						}
					}
					if !slices.ContainsFunc(checks, func(c check) bool { return c.Status == "SUCCESS" }) {
						t.Error("nothing was judged good")
					}
					if t.Failed() {
						t.Logf("the client:\n%s", s.said(sc.name))
					}
				})
			}
			if t.Failed() {
				t.Logf("the suite:\n%s", out)
			}
		})
	}
}
