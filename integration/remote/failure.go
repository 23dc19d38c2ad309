package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Error is why a server behind a URL could not be reached, or what it answered
// instead of an answer. It never holds the query of a URL, which may be a key.
type Error struct {
	Status     int           // of HTTP; 0: there was no answer
	RetryAfter time.Duration // 0: the server did not say
	// Said is for people: what the server wrote, in one line, or what was wrong.
	Said string
	// NotRun says that the server did not carry the request out: it refused it, or
	// did not get it.
	NotRun bool
	// Advice is what to do about it, for people; "": what the status suggests.
	Advice string
	Cause  error
}

// Error returns what happened in one line.
func (f *Error) Error() string {
	switch {
	case f.Status != 0 && f.Said != "":
		return fmt.Sprintf("HTTP %d %s: %s", f.Status, http.StatusText(f.Status), f.Said)
	case f.Status != 0:
		return fmt.Sprintf("HTTP %d %s", f.Status, http.StatusText(f.Status))
	case f.Said != "" && f.Cause != nil:
		return f.Said + ": " + f.Cause.Error()
	case f.Cause != nil:
		return f.Cause.Error()
	}
	return f.Said
}

// Unwrap returns the cause.
func (f *Error) Unwrap() error { return f.Cause }

// Evidence is what a breaker makes a class of.
func (f *Error) Evidence() messages.Evidence {
	ev := messages.Evidence{Err: f.Cause, HTTPStatus: f.Status, RetryAfter: f.RetryAfter, Text: f.Said, Remote: true, NotRun: f.NotRun, Advice: f.Advice}
	if f.Cause == nil && f.Status == 0 {
		ev.Err, ev.Text = f, "" // which says it
	}
	return ev
}

// refusal is the failure that an answer with an error status is.
func refusal(resp *http.Response, body []byte) *Error {
	f := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	f.NotRun = refusesOnly(f.Status, f.RetryAfter)
	words := wordsOf(body)
	if strings.Contains(resp.Header.Get("Content-Type"), "html") {
		words = "a page for people"
	}
	f.Said = words
	if resp.StatusCode == http.StatusUnauthorized {
		f.Said = "it wants credentials"
		if scheme, _, _ := strings.Cut(resp.Header.Get("WWW-Authenticate"), " "); scheme != "" {
			f.Said += " (" + oneLine([]byte(scheme)) + ")"
		}
		if words != "" {
			f.Said += ": " + words
		}
	}
	return f
}

// refusesOnly says whether a status means that the request was not carried out.
// Those of the server's own trouble say nothing of that: what stands in front of
// it may have given up on what goes on behind.
func refusesOnly(status int, retryAfter time.Duration) bool {
	switch status {
	case http.StatusRequestTimeout:
		return false
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	case http.StatusServiceUnavailable:
		return retryAfter > 0
	}
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}

// longestWait is how long a server can make us wait, whatever it asks for.
const longestWait = 24 * time.Hour

// retryAfter reads the header of that name, RFC 9110 section 10.2.3.
func retryAfter(value string, now time.Time) time.Duration {
	const longest = longestWait
	if d, ok := counted(value, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), longest)
	}
	return 0
}

// counted is a number of units of time, at most longestWait however large the
// number is. False: it is no number.
func counted(value string, unit time.Duration) (time.Duration, bool) {
	if strings.Trim(value, "0123456789") != "" || value == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n >= uint64(longestWait/unit) {
		return longestWait, true // more than there is room for
	}
	return time.Duration(n) * unit, true
}

// oneLine is the beginning of a body for people. Secrets are taken out of it later.
func oneLine(body []byte) string {
	const enough = 300
	text := messages.CutAtWord(string(body[:min(len(body), 2*enough)]), enough)
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))), " ")
}

// unreachable is the failure that an error of the HTTP client is, without the
// URL, whose query may be a secret.
func unreachable(err error) *Error {
	var f *Error
	if errors.As(err, &f) {
		return f
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Error{Said: "the server closed the connection before it had answered", Cause: err}
	}
	if brokeOff(err) {
		return &Error{Said: "the connection broke off before the server had answered", Cause: breakOffError{err}}
	}
	return &Error{Cause: err, Advice: dialAdvice(err)}
}

// breakOffError is an error of a connection that ended too early, for which the HTTP
// client has no type or value that others can see.
type breakOffError struct{ error }

// Unwrap returns what it is as well.
func (b breakOffError) Unwrap() []error { return []error{b.error, io.ErrUnexpectedEOF} }

// streamError has the fields of the error of the HTTP client for the end of one
// HTTP/2 stream, which makes itself one that has.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error is there for errors.As.
func (streamError) Error() string { return "the stream ended" }

// brokeOff says whether an error is that of a connection, or of its part for one
// request, that the other side or the network ended. Those of HTTP/2 and one of
// HTTP/1 are known by their words alone.
func brokeOff(err error) bool {
	if errors.As(err, new(streamError)) {
		return true
	}
	text := err.Error()
	return slices.ContainsFunc([]string{
		"http2: client conn", // "… lost", "… is closed", "… not usable"
		"http2: server sent GOAWAY",
		"http2: Transport received GOAWAY",
		"http2: Transport received Server's graceful shutdown GOAWAY",
		"http: server closed idle connection",
	}, func(words string) bool { return strings.Contains(text, words) })
}

func cancelled(err error) bool { return errors.Is(err, context.Canceled) }
