package httpembed

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/prep"
)

// A sizeError says that the texts of a request were too many or too long.
type sizeError struct{ failure *embed.Error }

func (e *sizeError) Error() string { return e.failure.Error() }

// Unwrap returns what to say where there is nothing left to make smaller.
func (e *sizeError) Unwrap() error { return e.failure }

var (
	aboutSize  = lazily(`(?i)too (long|large|many|big)|exceed|maximum|longer than|larger than|context (length|window|size)|input length|batch size|per (submitted )?batch|max allowed|at most`)
	aboutModel = lazily(`(?i)model\b.{0,100}?\b(not (found|supported|exist|available|loaded)|does not exist|unknown|unsupported|invalid)|(unknown|unsupported|invalid|no such) model|no models? (is )?loaded|model_not_found`)
	aboutQuota = lazily(`(?i)insufficient_quota|exceeded your current quota|billing_hard_limit`)
)

// lazily compiles an expression with its first use: a start has no time for it.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// quotaPause is how long a service is left alone whose quota is used up.
const quotaPause = time.Hour

// statusError explains an answer that is not 200.
func (c *Client) statusError(res *http.Response, body []byte) error {
	said := c.clean(explain(body))
	status := strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode)
	say := func(reason embed.Reason, what, hint string) *embed.Error {
		e := c.failure(reason, "%s %s (%s)", c.cfg.Service, what, strings.TrimSpace(status))
		if said != "" {
			e.Message += ": " + said
		}
		e.Hint = hint
		return e
	}
	code := res.StatusCode
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		said = "" // it may quote parts of the key
		return say(embed.Unauthorized, "refused the key", c.cfg.KeyHint)
	case code == http.StatusPaymentRequired, code == http.StatusTooManyRequests && aboutQuota().Match(body):
		e := say(embed.RateLimited, "says that its quota is used up", "Check plan and billing of the account.")
		e.RetryAfter = quotaPause
		return e
	case code == http.StatusTooManyRequests:
		e := say(embed.RateLimited, "got too many requests", "")
		e.RetryAfter = retryAfter(res.Header, time.Now())
		return e
	case (code < 500 || code == http.StatusInternalServerError) && aboutModel().Match(body):
		return say(embed.Misconfigured, "does not have the model", c.cfg.ModelHint)
	case code == http.StatusRequestEntityTooLarge,
		(code == http.StatusBadRequest || code == http.StatusUnprocessableEntity || code == http.StatusInternalServerError) && aboutSize().Match(body):
		return &sizeError{say(embed.Misconfigured, "found the texts too long or too many", "")}
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return say(embed.Misconfigured, "has no such API or model", c.cfg.URLHint+" "+c.cfg.ModelHint)
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooEarly, code >= 500:
		e := say(embed.Unavailable, "failed", "")
		e.RetryAfter = retryAfter(res.Header, time.Now())
		return e
	case code < 400:
		return say(embed.BadAnswer, "answered strangely", c.cfg.URLHint)
	default:
		return say(embed.Misconfigured, "refused the request", "")
	}
}

// longestPause bounds what a header may order.
const longestPause = 30 * time.Minute

// retryAfter is how long the service asks to be left alone; 0: it does not say.
func retryAfter(h http.Header, now time.Time) time.Duration {
	bounded := func(d time.Duration) time.Duration { return min(max(d, 0), longestPause) }
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return bounded(seconds(ms / 1000))
	}
	if text := strings.TrimSpace(h.Get("Retry-After")); text != "" {
		if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 0 {
			return bounded(seconds(s))
		}
		if at, err := http.ParseTime(text); err == nil {
			return bounded(at.Sub(now))
		}
	}
	// Of several limits those that are used up count, or, where none says so,
	// all of them.
	var longest, exhausted time.Duration
	for _, suffix := range []string{"", "-Requests", "-Tokens"} {
		wait := resetTime(h.Get("X-Ratelimit-Reset"+suffix), now)
		longest = max(longest, wait)
		if h.Get("X-Ratelimit-Remaining"+suffix) == "0" {
			exhausted = max(exhausted, wait)
		}
	}
	if exhausted > 0 {
		return bounded(exhausted)
	}
	return bounded(longest)
}

// seconds is exact enough, and does not overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, longestPause.Seconds()) * float64(time.Second))
}

// resetTime reads "6m0s", "12.5" (seconds), or a Unix time in seconds or
// milliseconds.
func resetTime(text string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	n, err := strconv.ParseFloat(text, 64)
	const (
		epoch  = 1e9
		millis = 1e12
	)
	switch {
	case err != nil || n < 0:
		return 0
	case n >= millis:
		return time.UnixMilli(int64(min(n, 1e15))).Sub(now)
	case n >= epoch:
		return time.Unix(int64(n), 0).Sub(now)
	default:
		return seconds(n)
	}
}

var (
	title = lazily(`(?is)<title[^>]*>(.*?)</title>`)
	tags  = lazily(`(?s)<(script|style).*?</(script|style)>|<[^>]*>`)
)

// explain finds what a body says for people: the message of an error, the title
// of a page, or its beginning.
func explain(body []byte) string {
	var parsed struct {
		Error   json.RawMessage `json:"error"`
		Detail  json.RawMessage `json:"detail"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &parsed) == nil {
		for _, raw := range []json.RawMessage{parsed.Error, parsed.Detail} {
			if text := message(raw); text != "" {
				return text
			}
		}
		if parsed.Message != "" {
			return parsed.Message
		}
	}
	text := string(body)
	if found := title().FindStringSubmatch(text); found != nil {
		return html.UnescapeString(found[1])
	}
	if strings.HasPrefix(strings.TrimSpace(text), "<") {
		text = html.UnescapeString(tags().ReplaceAllString(text, " "))
	}
	return text
}

// message reads "text", {"message": "text"} and [{"msg": "text"}].
func message(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var object struct{ Message, Msg string }
	if json.Unmarshal(raw, &object) == nil && object.Message+object.Msg != "" {
		return object.Message + object.Msg
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
		return message(list[0])
	}
	return ""
}

// clean makes one short line of what somebody else may have written, without
// the key.
func (c *Client) clean(text string) string {
	if c.cfg.Key != "" {
		text = strings.ReplaceAll(text, c.cfg.Key, "[key]")
	}
	const most = 240
	return prep.Line(text, most)
}
