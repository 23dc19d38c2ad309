package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds on one request.
const (
	maxBody      = 8 << 20 // bytes, unpacked
	maxRedirects = 5
	maxRest      = time.Hour // the longest Retry-After that is believed
)

// reply is what one request brought.
type reply struct {
	body      []byte
	etag      string
	unchanged bool // 304
}

func newHTTP(timeout time.Duration) (*http.Client, *http.Transport) {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
		TLSHandshakeTimeout:    timeout,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost:    1,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}
	return &http.Client{Transport: transport, CheckRedirect: followSafely}, transport
}

func followSafely(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return badAnswer("it redirects again and again")
	}
	// A registry of this machine may send elsewhere on it; one elsewhere must not
	// send here, nor to where anybody can listen.
	local := isLoopback(via[0].URL.Hostname()) && isLoopback(req.URL.Hostname())
	plain := via[0].URL.Scheme == "http" && req.URL.Host == via[0].URL.Host
	switch {
	case req.URL.Scheme != "https" && !local && !plain:
		return badAnswer(fmt.Sprintf("it redirects to %s://%s, which is not https", req.URL.Scheme, req.URL.Host))
	case isLoopback(req.URL.Hostname()) && !isLoopback(via[0].URL.Hostname()):
		return badAnswer("it redirects to this machine")
	}
	return nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// get makes one request, and once more where that may help and the registry
// does not mind. Its error is an *Error, or that of parent.
func (c *Client) get(parent context.Context, address, etag string) (*reply, error) {
	if until := c.cache.restingUntil(c.base); !until.IsZero() {
		left := until.Sub(c.opts.Now())
		return nil, &Error{Reason: Refused, Message: "the registry asked to be left alone " + untilThen(until, left), RetryAfter: left}
	}
	for attempt := 0; ; attempt++ {
		r, err := c.getOnce(parent, address, etag)
		if err == nil || parent.Err() != nil {
			return r, err
		}
		e := reasonOf(err)
		again := e.Reason == Unreachable || e.Reason == Refused && e.RetryAfter >= 0 && c.mayRepeat(e)
		wait := max(e.RetryAfter, c.opts.Backoff)
		until := c.opts.Now().Add(e.RetryAfter)
		if attempt > 0 || !again || wait > c.opts.Timeout {
			if e.RetryAfter > 0 {
				c.cache.rest(c.base, until)
				e.Message += ", and asked to be left alone " + untilThen(until, e.RetryAfter)
			}
			return nil, e
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-parent.Done():
			timer.Stop()
			if e.RetryAfter > 0 {
				c.cache.rest(c.base, until)
			}
			return nil, parent.Err()
		}
	}
}

// untilThen says when a rest ends, for people and models.
func untilThen(until time.Time, left time.Duration) string {
	return fmt.Sprintf("until %s (for another %v)", until.Local().Format(time.TimeOnly+" MST"), left.Round(time.Second))
}

// mayRepeat says whether a refusal is one of those that pass.
func (*Client) mayRepeat(e *Error) bool {
	var status statusError
	return errors.As(e.Cause, &status) && (status >= 500 || status == http.StatusTooManyRequests)
}

type statusError int

func (s statusError) Error() string {
	return strings.TrimSpace(strconv.Itoa(int(s)) + " " + http.StatusText(int(s)))
}

func (c *Client) getOnce(parent context.Context, address, etag string) (*reply, error) {
	ctx, cancel := context.WithTimeout(parent, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, &Error{Reason: Invalid, Message: "the registry's URL cannot be used", Cause: err}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "metamcp")
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(parent, ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // what matters was read
	if err := judgeStatus(res, etag != ""); err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusNotModified {
		return &reply{unchanged: true}, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, c.explain(parent, ctx, err)
	case len(body) > maxBody:
		return nil, badAnswer(fmt.Sprintf("one answer is larger than %d MiB", maxBody>>20))
	}
	tag := res.Header.Get("ETag")
	if len(tag) > maxName {
		tag = ""
	}
	return &reply{body: body, etag: tag}, nil
}

// explain makes our error of one of net/http's.
func (c *Client) explain(parent, ctx context.Context, err error) error {
	switch {
	case parent.Err() != nil:
		return parent.Err()
	case ctx.Err() != nil:
		return &Error{Reason: TooSlow, Message: fmt.Sprintf("the registry did not answer within %v", c.opts.Timeout), Cause: err}
	}
	var ours *Error
	if errors.As(err, &ours) {
		return ours
	}
	var outer *url.Error // whose text repeats the URL
	if errors.As(err, &outer) {
		err = outer.Err
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &Error{Reason: Unreachable, Message: "the registry's answer was cut off", Cause: err}
	case strings.HasPrefix(err.Error(), "gzip:") || strings.HasPrefix(err.Error(), "flate:"):
		return &Error{Reason: BadAnswer, Message: "the registry's answer cannot be unpacked", Cause: err}
	}
	return &Error{Reason: Unreachable, Message: "the registry cannot be reached: " + cleanText(err.Error(), maxMessage), Cause: err}
}

func judgeStatus(res *http.Response, conditional bool) error {
	switch code := res.StatusCode; {
	case code == http.StatusOK, code == http.StatusNotModified && conditional:
		return nil
	case code == http.StatusNotFound, code == http.StatusGone:
		return &Error{Reason: NotFound, Message: "the registry has nothing there (" + statusError(code).Error() + ")", Cause: statusError(code)}
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return &Error{Reason: Refused, Message: "the registry does not answer everybody (" + statusError(code).Error() + ")", Hint: "Is registry.url right?", Cause: statusError(code)}
	default:
		return &Error{Reason: Refused, Message: "the registry answered " + statusError(code).Error(), RetryAfter: retryAfter(res), Cause: statusError(code)}
	}
}

// retryAfter is the header of that name; 0: there is none that can be read.
func retryAfter(res *http.Response) time.Duration {
	text := res.Header.Get("Retry-After")
	d := time.Duration(0)
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		d = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		d = time.Until(at)
	}
	return min(max(d, 0), maxRest)
}
