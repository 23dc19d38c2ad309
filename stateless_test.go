package metamcp_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
)

// TestDetailsGoWithoutSecretsWhereNothingIsKept: without a state folder the last words
// of a server are in errors alone, where no line of its private key is.
func TestDetailsGoWithoutSecretsWhereNothingIsKept(t *testing.T) {
	for _, variable := range []string{"HOME", "USERPROFILE"} {
		t.Setenv(variable, "")
	}
	line := strings.Repeat("MIIEpAIBAAKCAQEA", 4) + "\n"
	key := "-----BEGIN RSA PRIVATE" + " KEY-----\n" + strings.Repeat(line, 26) + "-----END RSA PRIVATE" + " KEY-----"
	dir := t.TempDir()
	file, err := writeConfig(dir, children(map[string][]string{"crash": {"--exit-at-start", "3", "--exit-text", "using this:\n" + key + "\nno luck"}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	e := openFrom(t, config.Sources{Files: []string{file}, Cwd: dir}, slog.DiscardHandler)
	if at := e.Config().Settings.StateDir; at != "" {
		t.Fatalf("there is a state folder: %s", at)
	}
	_, err = e.ToolDetails(t.Context(), "crash", "echo")
	var failure *metamcp.Error
	if !errors.As(err, &failure) {
		t.Fatalf("the error is %v", err)
	}
	details := strings.Join(failure.Details, "\n")
	if !strings.Contains(details, "no luck") || !strings.Contains(details, "[REDACTED:private-key]") || strings.Contains(details, "MIIE") {
		t.Errorf("its details: %s", details)
	}
}
