package httpembed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/metamcp/metamcp/index/embed"
)

const (
	// No model in use makes vectors of more numbers than this, and no server
	// writes a number with more bytes.
	mostNumbers    = 8192
	bytesPerNumber = 32
	maxAnswer      = 128 << 20
	maxExplanation = 64 << 10
)

// request makes one HTTP request. Its error is an *embed.Error, a *sizeError,
// or that of ctx.
func (c *Client) request(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	body, err := json.Marshal(c.cfg.Encode(kind, texts))
	if err != nil {
		return nil, c.failure(embed.Misconfigured, "the request to %s cannot be written: %v", c.cfg.Service, err)
	}
	attempt, cancel := context.WithTimeout(ctx, c.limits.Request)
	defer cancel()
	req, err := http.NewRequestWithContext(attempt, http.MethodPost, c.cfg.Endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, c.failure(embed.Misconfigured, "the request to %s cannot be made: %v", c.cfg.Service, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "metamcp")
	if c.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.networkError(ctx, attempt, err)
	}
	defer func() { _ = res.Body.Close() }() // all that matters was read
	if res.StatusCode != http.StatusOK {
		explanation, err := io.ReadAll(io.LimitReader(res.Body, maxExplanation))
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.statusError(res, explanation)
	}
	most := min(1<<20+len(texts)*mostNumbers*bytesPerNumber, maxAnswer)
	answer, err := io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, c.networkError(ctx, attempt, err)
	case len(answer) > most:
		return nil, c.failure(embed.BadAnswer, "the answer of %s is longer than %d bytes, which is more than vectors of %d texts can take", c.cfg.Service, most, len(texts))
	}
	return c.decode(answer, len(texts))
}

// errSlow is the cause where a request had not enough time.
var errSlow = errors.New("the time of one request was up")

// networkError explains why there was no answer, or not all of it.
func (c *Client) networkError(ctx, attempt context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var redirect *redirectError
	if errors.As(err, &redirect) {
		e := c.failure(embed.Misconfigured, "%s %v", c.cfg.Service, redirect)
		e.Hint = c.cfg.URLHint
		return e
	}
	if attempt.Err() != nil {
		e := c.failure(embed.Unavailable, "%s did not answer within %v", c.cfg.Service, c.limits.Request)
		e.Cause = errSlow
		return e
	}
	// The outer error repeats the URL, which may have secrets in it.
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	e := c.failure(embed.Unavailable, "%s cannot be reached at %s: %v", c.cfg.Service, c.origin(), err)
	e.Cause = err
	if errors.Is(err, syscall.ECONNREFUSED) {
		e.Hint = "Is it running, and is the address right? " + c.cfg.URLHint
	}
	return e
}

// origin is the endpoint without what may be secret.
func (c *Client) origin() string {
	u, err := url.Parse(c.cfg.Endpoint)
	if err != nil {
		return "its address"
	}
	return u.Scheme + "://" + u.Host
}

// redirectError is a redirect that is not followed.
type redirectError struct{ to, why string }

func (e *redirectError) Error() string {
	return fmt.Sprintf("redirects to %s, which is not followed: %s", e.to, e.why)
}

// checkRedirect keeps key and texts where they were meant to go.
func checkRedirect(req *http.Request, via []*http.Request) error {
	const most = 5
	from, to := via[0].URL, req.URL
	shown := to.Scheme + "://" + to.Host + to.EscapedPath()
	upgrade := from.Scheme == "http" && to.Scheme == "https" && strings.EqualFold(from.Hostname(), to.Hostname()) && from.Port() == "" && to.Port() == ""
	switch {
	case !upgrade && (from.Scheme != to.Scheme || !strings.EqualFold(from.Host, to.Host)):
		return &redirectError{shown, "the key and the texts must not go to another host"}
	case req.Method != http.MethodPost:
		return &redirectError{shown, "the texts would get lost"}
	case len(via) >= most:
		return &redirectError{shown, "it redirects again and again"}
	}
	return nil
}
