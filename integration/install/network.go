package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/metamcp/metamcp/integration/netguard"
)

const maxRedirects = 5

// network says who may be asked for a bundle. Whoever describes a server chooses
// its address, so it must not be one of this machine or of the network behind
// it.
type network struct{ *netguard.Guard }

func publicNetwork() *network { return &network{netguard.Public()} }

// client makes a client of its own, whose connections are not kept.
func (n *network) client() *http.Client {
	return &http.Client{Transport: n.Transport(), CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("it redirects again and again")
		}
		return n.check(req.URL)
	}}
}

// check refuses an address that should not even be given to a proxy.
func (n *network) check(u *url.URL) error {
	switch {
	case u.Scheme != "https":
		return fmt.Errorf("%s is not https", u.Redacted())
	case u.User != nil:
		return errors.New("it holds a user or a password")
	}
	return n.RefuseHost(u.Hostname())
}

// download writes a file of at most so many bytes and holds it to its hash, 64
// hexadecimal digits.
func (n *network) download(ctx context.Context, address, file string, most int64, hash string) (err error) {
	u, err := url.Parse(address)
	if err == nil {
		err = n.check(u)
	}
	if err != nil {
		return fail(Invalid, "", "the bundle cannot be downloaded: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	client := n.client()
	answer, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // it repeats the address
		}
		return &Error{Reason: Failed, Message: fmt.Sprintf("the bundle cannot be downloaded from %s: %v", u.Host, err), Cause: err}
	}
	defer func() { _ = answer.Body.Close() }() // what counts was read
	tooLarge := fail(BadBundle, "", "the bundle is larger than %d MiB", most>>20)
	switch {
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusGone:
		return fail(NotFound, "", "there is no bundle at %s: %s", u.Redacted(), answer.Status)
	case answer.StatusCode != http.StatusOK:
		return fail(Failed, "", "the bundle cannot be downloaded from %s: %s", u.Host, answer.Status)
	case answer.ContentLength > most:
		return tooLarge
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return onDisk("writing the bundle", err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = onDisk("writing the bundle", closeErr)
		}
	}()
	sum := sha256.New()
	read := &readErrors{r: answer.Body}
	got, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(read, most+1))
	switch {
	case read.err != nil:
		return &Error{Reason: Failed, Message: fmt.Sprintf("the download from %s broke off after %d bytes: %v", u.Host, got, read.err), Hint: "Try again.", Cause: read.err}
	case err != nil:
		return onDisk("writing the bundle", err)
	case got > most:
		return tooLarge
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != hash {
		return fail(BadIntegrity, "It was changed since it was published, or on the way. Do not use it.", "the bundle has the SHA-256 %s and not %s", is, hash)
	}
	return nil
}

// readErrors remembers that it was the reading that failed.
type readErrors struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
