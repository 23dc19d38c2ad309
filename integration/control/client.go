package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/messages"
)

const (
	// headerPatience is how long a host may take to begin an answer.
	headerPatience = 15 * time.Second
	maxStatus      = 64 << 20
	maxRecord      = 16 << 20
	maxError       = 64 << 10
)

// Client speaks with one running host. It is safe for any goroutine. Its errors
// are of type *[Error], as far as no context ended.
type Client struct {
	info HostInfo
	http *http.Client
}

// Dial makes a client of a host that [Hosts] or [Find] returned, after it made
// sure that the host takes connections. The caller closes the client.
func Dial(info HostInfo) (*Client, error) {
	c := &Client{info: info, http: &http.Client{Transport: &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return attach.DialSocket(ctx, info.Socket) },
		DisableCompression:    true,
		IdleConnTimeout:       idleTime / 2,
		ResponseHeaderTimeout: headerPatience,
	}}}
	ctx, cancel := context.WithTimeout(context.Background(), probePatience)
	defer cancel()
	conn, err := attach.DialSocket(ctx, info.Socket)
	if err != nil {
		return nil, c.unreachable(err)
	}
	_ = conn.Close() // nothing was said
	return c, nil
}

// Info returns how the host is announced.
func (c *Client) Info() HostInfo { return c.info }

// Close ends connections that are idle; streams end with their contexts.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) unreachable(err error) error {
	return &Error{
		Code: CodeUnreachable, Message: fmt.Sprintf("the host %s (pid %d) cannot be reached: %v", c.info.Name, c.info.PID, err),
		Hint: "it may have ended just now; metamcp ps lists the hosts that run", Cause: err,
	}
}

// unreadable is of a record that the host sent, so that it is there.
func (c *Client) unreadable(err error) error {
	return &Error{
		Code: CodeInternal, Message: fmt.Sprintf("a record of the trace of the host %s (pid %d) is not understood: %v", c.info.Name, c.info.PID, err),
		Hint: "it may be of another version of metamcp; metamcp status shows which", Cause: err,
	}
}

// Do sends one request to an endpoint, such as "/v1/status". An answer that is
// no success is returned as an *[Error]; otherwise the caller closes the body.
func (c *Client) Do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://metamcp"+path, body)
	if err != nil {
		return nil, &Error{Code: CodeBadRequest, Message: err.Error(), Cause: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // its text would show an address that nobody knows
		}
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() {
			hangs := &attach.HangsError{Host: c.info}
			return nil, &Error{Code: CodeUnreachable, Message: hangs.Error(), Hint: attach.HangsHint, Cause: hangs}
		}
		return nil, c.unreachable(err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // what is not whole is no JSON, see below
	e := &Error{}
	if json.Unmarshal(text, e) != nil || e.Message == "" {
		e = &Error{Code: CodeInternal, Message: fmt.Sprintf("the host %s answered %s", c.info.Name, resp.Status)}
	}
	e.Status = resp.StatusCode
	return nil, e
}

// Status asks the host to describe itself, with its actors if wanted.
func (c *Client) Status(ctx context.Context, actors bool) (*messages.HostStatus, error) {
	path := "/v1/status"
	if actors {
		path += "?actors=1"
	}
	return c.status(ctx, path)
}

// Usage is Status with what the processes of the host and its servers take.
func (c *Client) Usage(ctx context.Context) (*messages.HostStatus, error) {
	return c.status(ctx, "/v1/status?usage=1")
}

func (c *Client) status(ctx context.Context, path string) (*messages.HostStatus, error) {
	resp, err := c.Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var st messages.HostStatus
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&st); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.unreachable(fmt.Errorf("its status is cut short or not understood: %w", err))
	}
	return &st, nil
}

// Trace attaches to the host. The records come as they happen, the first is of
// kind [messages.TraceStart]. The sequence ends without an error when ctx ends
// or the host ends in order, and with one where the host was lost. It can be
// ranged over once.
func (c *Client) Trace(ctx context.Context) iter.Seq2[messages.TraceRecord, error] {
	return func(yield func(messages.TraceRecord, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.Do(ctx, http.MethodGet, "/v1/trace", nil)
		if err != nil {
			if ctx.Err() == nil {
				yield(messages.TraceRecord{}, err)
			}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, maxRecord)
		lines.Split(wholeLines)
		for lines.Scan() {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			var rec messages.TraceRecord
			if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
				yield(rec, c.unreadable(err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, bufio.ErrTooLong):
			yield(messages.TraceRecord{}, c.unreadable(err))
		default:
			yield(messages.TraceRecord{}, c.unreachable(err))
		}
	}
}

// wholeLines is [bufio.ScanLines] without a last line that was cut off.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if atEOF && !bytes.ContainsRune(data, '\n') {
		return len(data), nil, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// Logs returns what a server wrote to stderr; with Follow the reader ends with
// ctx or the host. The caller closes it.
func (c *Client) Logs(ctx context.Context, server string, o LogOptions) (io.ReadCloser, error) {
	q := url.Values{"lines": {strconv.Itoa(o.Lines)}}
	if o.Follow {
		q.Set("follow", "1")
	}
	resp, err := c.Do(ctx, http.MethodGet, "/v1/logs/"+url.PathEscape(server)+"?"+q.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
