// Package cloudtest has fakes of embedding services for tests. Each speaks the
// protocol of its service over real HTTP, with the error bodies of the real
// one.
package cloudtest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Flavour is whose fake it is.
type Flavour string

// The flavours.
const (
	Voyage Flavour = "voyage"
	OpenAI Flavour = "openai"
	Ollama Flavour = "ollama"
	VLLM   Flavour = "vllm"
)

// Request is what a fake was asked.
type Request struct {
	Path, Authorization string
	Model               string   `json:"model"`
	Input               []string `json:"input"`
	InputType           string   `json:"input_type"`
	Truncation          *bool    `json:"truncation"`
	Encoding            string   `json:"encoding_format"`
}

// Server is a fake. Its exported fields are set before the first request.
type Server struct {
	URL     string // without a path
	Flavour Flavour
	Key     string // "": none is asked for
	Model   string
	// Dimension is that of its vectors.
	Dimension int
	// MaxInputs bounds the texts of a request, MaxTokens the words of a text;
	// 0: unbounded.
	MaxInputs, MaxTokens int
	// Before, if set, may answer a request itself; n counts from 1. It returns
	// whether it did.
	Before func(n int, w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests []Request
	received int
}

// New starts a fake that ends with the test.
func New(tb testing.TB, flavour Flavour) *Server {
	tb.Helper()
	s := &Server{Flavour: flavour, Key: "pa-secret-0123456789", Model: "voyage-3-lite", Dimension: 8}
	switch flavour {
	case OpenAI:
		s.Key, s.Model = "sk-secret-0123456789", "text-embedding-3-small"
	case Ollama:
		s.Key, s.Model = "", "nomic-embed-text"
	case VLLM:
		s.Key, s.Model = "", "BAAI/bge-m3"
	case Voyage:
	}
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Requests returns the requests that were well-formed.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Received is how many requests came, of whatever form.
func (s *Server) Received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.received++
	n := s.received
	s.mu.Unlock()
	if s.Before != nil && s.Before(n, w, r) {
		return
	}
	if r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	request := Request{Path: r.URL.Path, Authorization: r.Header.Get("Authorization")}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		s.Fail(w, http.StatusBadRequest, "invalid_request_error", err.Error(), "")
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	switch {
	case s.Key != "" && request.Authorization != "Bearer "+s.Key:
		given := strings.TrimPrefix(request.Authorization, "Bearer ")
		text := "Provided API key is invalid."
		if s.Flavour == OpenAI { // which quotes it
			text = "Incorrect API key provided: " + given + ". You can find your API key at https://platform.openai.com/account/api-keys."
		}
		s.Fail(w, http.StatusUnauthorized, "invalid_request_error", text, "invalid_api_key")
	case request.Model != s.Model:
		s.noModel(w, request.Model)
	case len(request.Input) == 0 || slices.Contains(request.Input, ""):
		s.Fail(w, http.StatusBadRequest, "invalid_request_error", "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.", "")
	case s.MaxInputs > 0 && len(request.Input) > s.MaxInputs:
		s.Fail(w, http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("The batch size limit is %d. Your batch size is %d.", s.MaxInputs, len(request.Input)), "")
	case s.tooLong(request.Input):
		s.Fail(w, http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("This model's maximum context length is %d tokens, however you requested more tokens. Please reduce your prompt; or completion length.", s.MaxTokens), "")
	default:
		s.answer(w, request.Input)
	}
}

func (s *Server) tooLong(input []string) bool {
	return s.MaxTokens > 0 && slices.ContainsFunc(input, func(t string) bool { return len(strings.Fields(t)) > s.MaxTokens })
}

func (s *Server) noModel(w http.ResponseWriter, name string) {
	switch s.Flavour {
	case Voyage:
		s.Fail(w, http.StatusBadRequest, "", fmt.Sprintf("Model %s is not supported. Supported models are ['voyage-3-large', 'voyage-3', 'voyage-3-lite'].", name), "")
	case Ollama:
		s.Fail(w, http.StatusNotFound, "api_error", fmt.Sprintf("model %q not found, try pulling it first", name), "")
	case OpenAI, VLLM:
		s.Fail(w, http.StatusNotFound, "invalid_request_error", "The model `"+name+"` does not exist or you do not have access to it.", "model_not_found")
	}
}

// Fail answers with an error in the flavour's form.
func (s *Server) Fail(w http.ResponseWriter, status int, kind, text, code string) {
	var body any
	switch s.Flavour {
	case Voyage:
		body = map[string]string{"detail": text}
	case VLLM:
		body = map[string]any{"object": "error", "message": text, "type": kind, "param": nil, "code": status}
	case OpenAI, Ollama:
		failure := map[string]any{"message": text, "type": kind, "param": nil, "code": nil}
		if code != "" {
			failure["code"] = code
		}
		body = map[string]any{"error": failure}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Server) answer(w http.ResponseWriter, input []string) {
	data := make([]map[string]any, 0, len(input))
	words := 0
	for i, text := range input {
		words += len(strings.Fields(text))
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": Vector(text, s.Dimension)})
	}
	slices.Reverse(data) // the index counts, not the order
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"object": "list", "data": data, "model": s.Model,
		"usage": map[string]int{"prompt_tokens": words, "total_tokens": words},
	})
}

// Vector is what the fakes make of a text: a bag of its words. It is not of
// length 1.
func Vector(text string, dimension int) []float32 {
	v := make([]float32, dimension)
	for _, word := range strings.Fields(text) {
		h := fnv.New32a()
		_, _ = h.Write([]byte(word))
		v[h.Sum32()%uint32(dimension)]++
	}
	return v
}
