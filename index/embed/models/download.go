package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/diskspace"
	"github.com/metamcp/metamcp/integration/regular"
)

const (
	attempts   = 5                      // in a row without a byte
	maxBackoff = 30 * time.Second       // between them
	tellEvery  = 100 * time.Millisecond // how often progress is told
	spareDisk  = 16 << 20               // is left free
)

// validator says which version of a file a part belongs to.
type validator struct {
	URL          string `json:"url"`
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
}

// condition is the value of If-Range; "": a download cannot be resumed.
func (v *validator) condition() string {
	if v.ETag != "" && !strings.HasPrefix(v.ETag, "W/") {
		return v.ETag
	}
	return v.LastModified
}

// A permanentError is not tried again.
type permanentError struct{ error }

// Unwrap returns what it is.
func (e permanentError) Unwrap() error { return e.error }

// download fetches the whole file into the part.
func (f *Folder) download(ctx context.Context, p *plan) error {
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: f.stall}).DialContext, TLSHandshakeTimeout: f.stall, ResponseHeaderTimeout: f.stall,
		ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 256 << 10,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: followSafely}
	out, err := regular.Open(f.part(p.Name), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	err = f.fetchAll(ctx, client, p, out)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return p.explain(err)
}

// explain makes an error for people of why a download failed.
func (p *plan) explain(err error) *Error {
	var explained *Error
	switch {
	case errors.As(err, &explained):
		return explained
	case isDiskFull(err):
		return &Error{
			Message: "the disk is full", Cause: err,
			Hint: fmt.Sprintf("Make room and try again: what was downloaded is kept. `metamcp model remove %s` deletes it.", p.Name),
		}
	}
	return &Error{Message: fmt.Sprintf("the download of %s failed: %v", p.URL, err), Cause: err}
}

func followSafely(req *http.Request, via []*http.Request) error {
	const most = 10
	if len(via) >= most {
		return permanentError{errors.New("it redirects again and again")}
	}
	// A page of this machine may send elsewhere; elsewhere must not send here.
	local := isLoopback(via[0].URL.Hostname()) && isLoopback(req.URL.Hostname())
	if req.URL.Scheme != "https" && !local {
		return permanentError{fmt.Errorf("it redirects to %s://%s, which is not https", req.URL.Scheme, req.URL.Host)}
	}
	return nil
}

func (f *Folder) fetchAll(ctx context.Context, client *http.Client, p *plan, out *os.File) error {
	backoff := f.backoff
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	// A server that cannot go on where it was cut begins anew: it must get
	// further than ever for that to count.
	furthest := have
	for fruitless := 0; ; {
		err := f.fetch(ctx, client, p, out, have)
		var permanent permanentError
		if err == nil || ctx.Err() != nil || errors.As(err, &permanent) {
			return err
		}
		var seekErr error
		if have, seekErr = out.Seek(0, io.SeekEnd); seekErr != nil {
			return seekErr
		}
		if fruitless++; have > furthest {
			furthest, fruitless, backoff = have, 0, f.backoff
		}
		if fruitless >= attempts {
			return &Error{Message: fmt.Sprintf("the download of %s failed %d times in a row: %v", p.URL, fruitless, err), Hint: "Try again later: what was downloaded is kept.", Cause: err}
		}
		p.tell(Progress{Note: fmt.Sprintf("the download was interrupted (%v) and goes on soon", err)})
		timer := time.NewTimer(backoff)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// fetch makes one request and appends what comes to the first have bytes.
func (f *Folder) fetch(parent context.Context, client *http.Client, p *plan, out *os.File, have int64) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.from, http.NoBody)
	if err != nil {
		return permanentError{err}
	}
	req.Header.Set("User-Agent", "metamcp")
	req.Header.Set("Accept-Encoding", "identity") // ranges are those of the file itself
	condition := ""
	if have > 0 {
		condition = f.condition(p)
	}
	if condition != "" {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		req.Header.Set("If-Range", condition)
	}
	res, err := client.Do(req)
	if err != nil {
		var outer *url.Error // whose text repeats the URL
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return err
	}
	defer func() { _ = res.Body.Close() }() // what matters was read
	have, total, err := begin(res, have, condition != "")
	switch {
	case errors.Is(err, errRange):
		return errors.Join(err, out.Truncate(0)) // the part is of no use
	case err != nil:
		return err
	case res.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return nil // nothing was missing
	}
	if err := f.room(p, have, total); err != nil {
		return err
	}
	if err := out.Truncate(have); err != nil {
		return permanentError{err}
	}
	if _, err := out.Seek(have, io.SeekStart); err != nil {
		return permanentError{err}
	}
	if have > 0 {
		p.tell(Progress{Note: fmt.Sprintf("going on at %d of %d bytes", have, total)})
	} else if err := f.remember(p, res); err != nil {
		return permanentError{err}
	}
	timer := time.AfterFunc(f.stall, func() { cancel(fmt.Errorf("nothing came for %v", f.stall)) })
	defer timer.Stop()
	w := &progressWriter{out: out, p: p, done: have, total: total, alive: func() { timer.Reset(f.stall) }}
	_, err = io.Copy(w, res.Body)
	w.told = time.Time{}
	w.report()
	if cause := context.Cause(ctx); err != nil && cause != nil && parent.Err() == nil {
		return cause
	}
	if err == nil && total > 0 && w.done < total {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// errRange is the cause where a server cannot go on with a part.
var errRange = errors.New("the server cannot go on")

// begin judges the head of an answer: where it goes on, and how long the whole
// file is; 0: not known.
func begin(res *http.Response, have int64, asked bool) (from, total int64, err error) {
	switch code := res.StatusCode; {
	case code == http.StatusOK:
		return 0, max(res.ContentLength, 0), nil // all of it, whatever was asked for
	case code == http.StatusPartialContent && asked:
		var first, last int64
		if _, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total); err != nil || first != have || total <= last {
			return 0, 0, fmt.Errorf("%w: it answered with %q where bytes from %d were asked for", errRange, res.Header.Get("Content-Range"), have)
		}
		return have, total, nil
	case code == http.StatusRequestedRangeNotSatisfiable && asked:
		_, size, _ := strings.Cut(res.Header.Get("Content-Range"), "*/")
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && n == have {
			return have, have, nil
		}
		return 0, 0, fmt.Errorf("%w: it has no bytes from %d", errRange, have)
	case code == http.StatusNotFound, code == http.StatusGone:
		return 0, 0, permanentError{&Error{Message: "there is no such file (" + res.Status + ")", Hint: "Check the URL."}}
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return 0, 0, permanentError{&Error{Message: "the server does not give the file to everybody (" + res.Status + ")", Hint: "Download it by other means, and serve it on this machine."}}
	case code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code >= 500:
		return 0, 0, errors.New("the server answered " + res.Status)
	default:
		return 0, 0, permanentError{errors.New("the server answered " + res.Status)}
	}
}

// room refuses what is too large before it comes.
func (f *Folder) room(p *plan, have, total int64) error {
	if total > p.maxBytes {
		return permanentError{tooLarge(p, total)}
	}
	if p.sizeWanted > 0 && total > 0 && total != p.sizeWanted {
		return permanentError{&Error{
			Message: fmt.Sprintf("the file at %s has %d bytes, but should have %d", p.URL, total, p.sizeWanted),
			Hint:    "It is not the file that was meant.", Cause: ErrChecksum,
		}}
	}
	free, err := diskspace.Free(f.dir)
	if err == nil && total > 0 && total-have+spareDisk > free { // where it cannot be asked, writing will tell
		return permanentError{&Error{
			Message: fmt.Sprintf("the disk has %d MB left, and the model needs %d MB", free>>20, (total-have+spareDisk)>>20),
			Hint:    "Make room, or set --state-dir to a folder on another disk.",
		}}
	}
	return nil
}

func tooLarge(p *plan, size int64) error {
	return &Error{
		Message: fmt.Sprintf("the file at %s has %d MB or more, and %d MB are allowed", p.URL, size>>20, p.maxBytes>>20),
		Hint:    "Is it an embedding model? If so, raise --max-size.",
	}
}

// condition returns what tells the server which version the part belongs to.
func (f *Folder) condition(p *plan) string {
	var v validator
	text, _, err := regular.Read(f.part(p.Name)+".json", 1<<20)
	if err != nil || json.Unmarshal(text, &v) != nil || v.URL != p.URL {
		return ""
	}
	return v.condition()
}

func (f *Folder) remember(p *plan, res *http.Response) error {
	text, err := json.Marshal(validator{p.URL, res.Header.Get("ETag"), res.Header.Get("Last-Modified")})
	if err != nil {
		return err
	}
	return atomicfile.Write(f.part(p.Name)+".json", text, 0o600)
}

// progressWriter counts, and refuses more than is allowed.
type progressWriter struct {
	out         io.Writer
	p           *plan
	done, total int64
	told        time.Time
	alive       func()
}

// Write implements io.Writer.
func (w *progressWriter) Write(b []byte) (int, error) {
	w.alive()
	if w.total > 0 && w.done+int64(len(b)) > w.total {
		return 0, permanentError{errors.New("the server sent more than it had announced")}
	}
	if w.done+int64(len(b)) > w.p.maxBytes {
		return 0, permanentError{tooLarge(w.p, w.done)}
	}
	n, err := w.out.Write(b)
	w.done += int64(n)
	w.report()
	if err != nil {
		return n, permanentError{err}
	}
	return n, nil
}

func (w *progressWriter) report() {
	if now := time.Now(); now.Sub(w.told) >= tellEvery {
		w.told = now
		w.p.tell(Progress{Done: w.done, Total: w.total})
	}
}
