// Package voyage embeds texts with Voyage AI.
package voyage

import (
	"cmp"
	"log/slog"
	"strings"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/httpembed"
)

// What a [Config] means where it says nothing.
const (
	DefaultModel   = "voyage-3-lite"
	DefaultBaseURL = "https://api.voyageai.com/v1"
)

// The variables that may hold the key; the first one wins.
const (
	KeyVariable         = "VOYAGE_API_KEY"
	FallbackKeyVariable = "ANTHROPIC_API_KEY"
)

const (
	maxTexts = 128 // every model takes that many; some take 1,000
	// maxTokens is what the models with the lowest limit, 120,000, take with
	// some room for the error of an estimate.
	maxTokens = 100_000
	maxText   = 64 << 10 // the service cuts at the model's own limit, by truncation
)

// Config says which model to ask, and with whose key. Key is needed.
type Config struct {
	// Key is the secret, KeyVariable where it came from, for errors; "": VOYAGE_API_KEY.
	Key, KeyVariable string
	// Model is one of Voyage's, BaseURL where the API is.
	Model, BaseURL string
	Limits         httpembed.Limits
	Log            *slog.Logger
}

// FindKey looks for a key in an environment and names the variable that holds
// it; two empty strings: there is none. Voyage's documentation and metamcp's
// first version let ANTHROPIC_API_KEY hold it too. Most people keep their key of
// Anthropic there, which Voyage does not take and should not see, so a value
// that is recognisably one counts only if Voyage was asked for explicitly.
func FindKey(lookup func(string) string, explicitly bool) (key, variable string) {
	const ofAnthropic = "sk-ant-"
	if key = strings.TrimSpace(lookup(KeyVariable)); key != "" {
		return key, KeyVariable
	}
	key = strings.TrimSpace(lookup(FallbackKeyVariable))
	if key == "" || strings.HasPrefix(key, ofAnthropic) && !explicitly {
		return "", ""
	}
	return key, FallbackKeyVariable
}

// Has says whether a model may be one of Voyage's, by its name.
func Has(model string) bool { return strings.HasPrefix(model, "voyage-") }

// request is the body of POST /embeddings.
type request struct {
	Input      []string `json:"input"`
	Model      string   `json:"model"`
	InputType  string   `json:"input_type"`
	Truncation bool     `json:"truncation"`
}

// New returns an embedder. The error is an *[embed.Error]: there is no key, or
// the URL is none.
func New(cfg Config) (*httpembed.Client, error) {
	cfg.Model = cmp.Or(cfg.Model, DefaultModel)
	cfg.BaseURL = strings.TrimRight(cmp.Or(cfg.BaseURL, DefaultBaseURL), "/")
	variable := cmp.Or(cfg.KeyVariable, KeyVariable)
	hint := "Set " + variable + " to a key of https://dashboard.voyageai.com."
	if variable == FallbackKeyVariable {
		hint = "The key came from " + variable + "; set " + KeyVariable + " to a key of https://dashboard.voyageai.com."
	}
	if strings.TrimSpace(cfg.Key) == "" {
		return nil, &embed.Error{Reason: embed.Unauthorized, Message: "there is no key for Voyage", Hint: hint}
	}
	return httpembed.New(httpembed.Config{
		Service: "Voyage", Model: "voyage/" + cfg.Model,
		Endpoint: strings.TrimSuffix(cfg.BaseURL, "/embeddings") + "/embeddings",
		Key:      cfg.Key, KeyHint: hint,
		ModelHint: "Set search.embedderModel to one of https://docs.voyageai.com/docs/embeddings, or leave it out for " + DefaultModel + ".",
		URLHint:   "The API of Voyage is at " + DefaultBaseURL + ".",
		MaxTexts:  maxTexts, MaxTokens: maxTokens, MaxText: maxText,
		Encode: func(kind embed.Kind, texts []string) any {
			return request{Input: texts, Model: cfg.Model, InputType: kind.String(), Truncation: true}
		},
		Limits: cfg.Limits, Log: cfg.Log,
	})
}
