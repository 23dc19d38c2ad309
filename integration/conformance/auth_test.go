package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
)

// oauthFor is what a person would have to configure for a scenario.
func oauthFor(tn turn) map[string]any {
	var given struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Key    string `json:"private_key_pem"`
		Issuer string `json:"issuer"`
	}
	_ = json.Unmarshal([]byte(tn.Context), &given) // most scenarios give nothing
	if tn.Scenario == "auth/basic-cimd" {
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
	if strings.HasPrefix(tn.Scenario, "auth/client-credentials") {
		o["grant"] = "client_credentials"
	}
	return o
}

// logIn runs a metamcp auth login and is its browser.
func logIn(ctx context.Context, login *exec.Cmd, log io.Writer) error {
	out, err := login.StdoutPipe()
	if err != nil {
		return err
	}
	login.Stderr = log
	if err := login.Start(); err != nil {
		return err
	}
	var visited error
	for lines := bufio.NewScanner(out); lines.Scan(); {
		_, _ = fmt.Fprintln(log, lines.Text())
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http") {
			visited = send(ctx, http.MethodGet, address, nil)
		}
	}
	return errors.Join(visited, login.Wait())
}
