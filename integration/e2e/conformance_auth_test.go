package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// authScenarios are those of the suite for authorization, by revision. Not among
// them are those of extensions that metamcp does not have: docs/OAUTH.md names
// them.
var authScenarios = map[string][]string{
	"":           {"client-credentials-jwt", "client-credentials-basic"}, // an extension
	"2025-03-26": {"2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"},
	"2025-11-25": {
		"metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate",
		"scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic",
		"token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration",
	},
	"2026-07-28": {
		"metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd", "scope-from-www-authenticate",
		"scope-from-scopes-supported", "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit", "token-endpoint-auth-basic",
		"token-endpoint-auth-post", "token-endpoint-auth-none", "pre-registration", "resource-mismatch", "offline-access-scope",
		"offline-access-not-supported", "authorization-server-migration", "iss-supported", "iss-not-advertised", "iss-supported-missing",
		"iss-wrong-issuer", "iss-unexpected", "iss-normalized", "metadata-issuer-mismatch",
	},
}

// metamcp, told by its error that a login is needed, logs in as the protocol's
// own suite asks of clients; the driver plays the browser.
func TestConformanceOfAuthorization(t *testing.T) {
	t.Parallel()
	for revision, names := range authScenarios {
		for _, name := range names {
			t.Run(strings.TrimSpace(name+" "+revision), func(t *testing.T) {
				t.Parallel()
				conform(t, scenario{name: "auth/" + name, revision: revision, calls: []toolCall{{"test-tool", `{}`}}})
			})
		}
	}
}

// oauthToDrive is what a person would have to configure for a scenario.
func oauthToDrive() map[string]any {
	name := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
		Issuer string `json:"issuer"`
	}
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &given) // most scenarios give nothing
	if name == "auth/basic-cimd" {
		return map[string]any{"clientMetadataUrl": "https://conformance-test.local/client-metadata.json"}
	}
	if given.ID == "" {
		return nil
	}
	o := map[string]any{"clientId": given.ID}
	for key, value := range map[string]string{"clientSecret": given.Secret, "privateKey": given.Key, "issuer": given.Issuer} {
		if value != "" {
			o[key] = value
		}
	}
	if strings.HasPrefix(name, "auth/client-credentials") {
		o["grant"] = "client_credentials"
	}
	return o
}

// logIn runs metamcp auth login and is its browser.
func logIn(ctx context.Context, metamcp string, flags []string, log io.Writer) error {
	cmd := exec.CommandContext(ctx, metamcp, append([]string{"auth", "login", "suite", "--no-browser", "--timeout", "30s"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return err
	}
	var visited error
	for lines := bufio.NewScanner(out); lines.Scan(); {
		_, _ = fmt.Fprintln(log, lines.Text())
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http") {
			visited = visit(ctx, address)
		}
	}
	return errors.Join(visited, cmd.Wait())
}

// visit opens an address as a browser would, and goes where it is sent.
func visit(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the browser sees %s", resp.Status)
	}
	return nil
}
