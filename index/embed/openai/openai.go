// Package openai embeds texts with any server that has the embeddings API of
// OpenAI: OpenAI itself, Ollama, LM Studio, vLLM, llama.cpp and others.
package openai

import (
	"cmp"
	"errors"
	"log/slog"
	"net/url"
	"regexp"
	"strings"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/httpembed"
)

// What a [Config] means where it says nothing. There is no default model for
// servers other than OpenAI's.
const (
	DefaultBaseURL = "https://api.openai.com/v1"
	DefaultModel   = "text-embedding-3-small"
)

const (
	// A local server on a processor takes seconds for so many.
	maxTexts  = 64
	maxTokens = 100_000 // OpenAI takes 300,000
	// maxText is near what OpenAI takes, 8,192 tokens. Servers that take less
	// say so, and get less.
	maxText = 24_000
)

// Config says where the server is and which of its models to ask.
type Config struct {
	// BaseURL is the server's address, with or without /v1.
	BaseURL string
	Model   string
	// Key may be empty: local servers need none. KeyVariable is where it came
	// from or is looked for, for errors; "": OPENAI_API_KEY.
	Key, KeyVariable string
	Limits           httpembed.Limits
	Log              *slog.Logger
}

// request is the body of POST /v1/embeddings.
type request struct {
	Input    []string `json:"input"`
	Model    string   `json:"model"`
	Encoding string   `json:"encoding_format"`
}

// New returns an embedder. The error is an *[embed.Error]: the URL is none, or
// no model is named.
func New(cfg Config) (*httpembed.Client, error) {
	const urlHint = "Set search.embedderUrl to the server's base URL, such as http://127.0.0.1:11434 for Ollama."
	endpoint, host, err := parse(cmp.Or(cfg.BaseURL, DefaultBaseURL))
	if err != nil {
		return nil, &embed.Error{Reason: embed.Misconfigured, Message: "the address of the OpenAI-compatible embedder is not an absolute http or https URL", Hint: urlHint}
	}
	if cfg.Model == "" && strings.HasPrefix(host, "api.openai.com") {
		cfg.Model = DefaultModel
	}
	if cfg.Model == "" {
		return nil, &embed.Error{
			Reason: embed.Misconfigured, Message: "no model is named for the embedder at " + host,
			Hint: "Set search.embedderModel to one that the server has, such as nomic-embed-text for Ollama.",
		}
	}
	return httpembed.New(httpembed.Config{
		Service: "The embedder at " + host, Model: "openai/" + host + "/" + cfg.Model,
		Endpoint: endpoint, Key: cfg.Key,
		KeyHint:   "Set " + cmp.Or(cfg.KeyVariable, "OPENAI_API_KEY") + " to a key of that service, or search.embedderKeyEnv to the variable that holds it.",
		ModelHint: "Set search.embedderModel to a model that the server has and that makes embeddings; with Ollama, get it with `ollama pull` first.",
		URLHint:   urlHint,
		MaxTexts:  maxTexts, MaxTokens: maxTokens, MaxText: maxText,
		Encode: func(_ embed.Kind, texts []string) any {
			return request{Input: texts, Model: cfg.Model, Encoding: "float"}
		},
		Limits: cfg.Limits, Log: cfg.Log,
	})
}

// version is a part of a path that names the version of an API.
var version = regexp.MustCompile(`(^|/)v[0-9]+[a-z0-9]*(/|$)`)

// parse returns the endpoint of a base URL, and how the server is called: two
// servers with models of one name need not have the same model.
func parse(base string) (endpoint, host string, err error) {
	u, err := url.Parse(strings.TrimSpace(base))
	if err == nil && u.Host == "" {
		err = errors.New("it has no host")
	}
	if err != nil {
		return "", "", err
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/embeddings")
	host = u.Host + strings.TrimSuffix(path, "/v1")
	if !version.MatchString(path) {
		path += "/v1"
	}
	u.Path, u.RawPath = path+"/embeddings", ""
	return u.String(), host, nil
}
