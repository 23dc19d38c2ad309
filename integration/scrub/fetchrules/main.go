// Command fetchrules writes rules.json, the rules by which scrub tells secrets
// by their shape: those of gitleaks (MIT licence, see NOTICE), of the version
// below, which the Go module proxy delivers and the checksum database vouches
// for. Run it by "go generate ./integration/scrub"; a new version is a change
// of the constant.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
)

const (
	module  = "github.com/zricethezav/gitleaks/v8"
	version = "v8.30.1"
)

// file is what scrub reads; the names of the members are its.
type file struct {
	From      string    `json:"from"`
	Allowlist allowlist `json:"allowlist"`
	Rules     []rule    `json:"rules"`
}

type rule struct {
	ID          string      `json:"id"`
	Regex       string      `json:"regex"`
	Entropy     float64     `json:"entropy,omitempty"`
	SecretGroup int         `json:"secretGroup,omitempty"`
	Keywords    []string    `json:"keywords"`
	Allowlists  []allowlist `json:"allowlists,omitempty"`
	SkipReport  bool        `json:"-"`
}

type allowlist struct {
	Condition   string   `json:"-"`
	RegexTarget string   `json:"regexTarget,omitempty"`
	Regexes     []string `json:"regexes,omitempty"`
	Stopwords   []string `json:"stopwords,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fetchrules:", err)
		os.Exit(1)
	}
}

func run() error {
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output() //nolint:noctx // a command of a developer
	if err != nil {
		return fmt.Errorf("go mod download %s@%s: %w", module, version, err)
	}
	var got struct{ Dir string }
	if err := json.Unmarshal(out, &got); err != nil {
		return err
	}
	var source struct {
		Allowlist allowlist
		Rules     []rule
	}
	if _, err := toml.DecodeFile(filepath.Join(got.Dir, "config", "gitleaks.toml"), &source); err != nil {
		return err
	}
	to := file{From: module + " " + version, Allowlist: source.Allowlist}
	for _, r := range source.Rules {
		if r.Regex == "" || r.SkipReport {
			continue // it judges by the names of files, which no result has
		}
		for i, k := range r.Keywords {
			r.Keywords[i] = strings.ToLower(k)
		}
		lists := r.Allowlists
		r.Allowlists = nil
		for _, a := range lists {
			// What is allowed only in certain files is not allowed here.
			if !strings.EqualFold(a.Condition, "and") && len(a.Regexes)+len(a.Stopwords) > 0 {
				r.Allowlists = append(r.Allowlists, a)
			}
		}
		to.Rules = append(to.Rules, r)
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(to); err != nil {
		return err
	}
	return os.WriteFile("rules.json", text.Bytes(), 0o644) //nolint:gosec // it is source
}
