package models

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/index/embed/models/gguf"
	"github.com/metamcp/metamcp/integration/regular"
)

// DefaultMaxBytes is how large a model may be. Those that the local embedder
// can run are far smaller.
const DefaultMaxBytes = 4 << 30

// A Request says what to install.
type Request struct {
	// Source is the name of a known model, or the URL of a GGUF file: https,
	// or http on this machine.
	Source string
	// Name is how to call it; "": as the catalogue or the URL does.
	Name string
	// SHA256 is the checksum that the file must have; "": that of the
	// catalogue.
	SHA256 string
	// TrustFirstUse takes what the URL serves now where no checksum is known,
	// and insists on the same from then on.
	TrustFirstUse bool
	// MaxBytes is how large the file may be; 0: DefaultMaxBytes.
	MaxBytes int64
	// Progress is told, by the calling goroutine, what happens; nil: nobody.
	Progress func(Progress)
}

// Progress is a step of an installation: a note for people, or how far the
// download is.
type Progress struct {
	Note        string
	Done, Total int64 // bytes; Total 0: not known
}

// plan is a request in which nothing is left open.
type plan struct {
	Installed         // what will be known of it
	from       string // the URL with its query
	maxBytes   int64
	firstUse   bool
	sizeWanted int64 // 0: any
	tell       func(Progress)
}

// Install downloads a model. It goes on where an earlier download was
// interrupted, and waits where another process installs the same model. It
// reports whether the model was there already. The file gets its name only
// after its checksum was found right; where ctx ends before, what was
// downloaded is kept for the next time.
func (f *Folder) Install(ctx context.Context, r Request) (model Installed, already bool, err error) {
	p, err := newPlan(&r)
	if err != nil {
		return Installed{}, false, err
	}
	unlock, err := f.lock(ctx, p.Name, func() {
		p.tell(Progress{Note: "waiting for another process that installs it"})
	})
	if err != nil {
		return Installed{}, false, err
	}
	defer unlock()
	m, err := f.read()
	if err != nil {
		return Installed{}, false, err
	}
	if already, err := f.judge(p, m); already || err != nil {
		return m.Models[p.Name], already, err
	}
	adopted := f.adopt(p)
	if !adopted {
		if err := f.download(ctx, p); err != nil {
			return Installed{}, false, err
		}
		if err := f.accept(p); err != nil {
			return Installed{}, false, err
		}
	}
	if err := f.note(ctx, p); err != nil {
		return Installed{}, false, err
	}
	return p.Installed, adopted, nil
}

// note puts the model into the manifest.
func (f *Folder) note(ctx context.Context, p *plan) error {
	p.InstalledAt = time.Now().UTC().Truncate(time.Second)
	// The file has its name, so it is too late to be interrupted.
	return f.update(context.WithoutCancel(ctx), func(m *manifest) {
		m.Models[p.Name] = p.Installed
		if _, pinned := m.Pins[p.URL]; pinned || p.Trust == TrustFirstUse {
			m.Pins[p.URL] = p.SHA256
		}
	})
}

var hexSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

func newPlan(r *Request) (*plan, error) {
	p := &plan{maxBytes: r.MaxBytes, firstUse: r.TrustFirstUse, tell: r.Progress}
	if p.maxBytes <= 0 {
		p.maxBytes = DefaultMaxBytes
	}
	if p.tell == nil {
		p.tell = func(Progress) {}
	}
	if k, ok := find(r.Source); ok {
		p.Name, p.from, p.SHA256, p.Trust, p.sizeWanted = k.Name, k.URL, k.SHA256, TrustCatalogue, k.Size
		p.QueryPrefix, p.DocumentPrefix = k.QueryPrefix, k.DocumentPrefix
	} else if strings.Contains(r.Source, "://") {
		p.from = r.Source
	} else {
		return nil, notInCatalogue(r.Source)
	}
	u, err := checkURL(p.from)
	if err != nil {
		return nil, err
	}
	bare := *u
	bare.RawQuery, bare.Fragment = "", "" // signatures and the like are not for the manifest
	p.URL = bare.String()
	if p.Name == "" {
		p.Name = nameOf(u)
	}
	if r.Name != "" {
		p.Name = r.Name
	}
	if !validName(p.Name) {
		return nil, &Error{Message: fmt.Sprintf("%q cannot be the name of a model", p.Name), Hint: "Give one of small letters, digits, dots and dashes with --name."}
	}
	if r.SHA256 != "" {
		sum := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(r.SHA256)), "sha256:")
		if !hexSum.MatchString(sum) {
			return nil, &Error{Message: fmt.Sprintf("%q is not a SHA-256 checksum", r.SHA256), Hint: "It has 64 hexadecimal digits."}
		}
		if sum != p.SHA256 {
			p.SHA256, p.Trust, p.sizeWanted = sum, TrustGiven, 0
		}
	}
	return p, nil
}

func notInCatalogue(name string) error {
	e := &Error{Message: fmt.Sprintf("%q is neither a known model nor a URL", name), Cause: ErrUnknown, Hint: "`metamcp model list --known` shows the known ones."}
	names := func(yield func(string) bool) {
		for _, k := range known {
			if !yield(k.Name) {
				return
			}
		}
	}
	if near := index.Nearest(name, names, 1); len(near) > 0 {
		e.Hint = "Did you mean " + near[0] + "?"
	}
	return e
}

// checkURL lets nothing be read or changed on its way: the checksum may be
// that of the first download.
func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return nil, &Error{Message: "the URL of the model cannot be read", Hint: "It looks like https://host/path/model.gguf.", Cause: err}
	case u.User != nil:
		return nil, &Error{Message: "the URL of the model has a user name or password in it", Hint: "Download the file by other means, and serve it on this machine."}
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, &Error{Message: fmt.Sprintf("models are only downloaded by https, not from %s://%s", u.Scheme, u.Host), Hint: "Give an address with https; http is allowed on this machine alone."}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// nameOf makes a name of the last part of a URL.
func nameOf(u *url.URL) string {
	name := strings.ToLower(path.Base(u.Path))
	name = strings.TrimSuffix(name, ".gguf")
	return regexp.MustCompile(`[^a-z0-9._-]+`).ReplaceAllString(name, "-")
}

// judge decides what the manifest means for the request; true: it is done.
func (f *Folder) judge(p *plan, m *manifest) (already bool, err error) {
	if p.SHA256 == "" {
		p.SHA256 = m.Pins[p.URL]
		p.Trust = TrustFirstUse
		if p.SHA256 == "" && !p.firstUse {
			return false, &Error{
				Message: "the checksum of " + p.URL + " is not known, so nobody can tell whether the right file will come",
				Hint:    "Give it with --sha256 (the page of the file on the hub shows it), or use --trust-on-first-use to believe what comes now, and be told if that ever changes.",
				Cause:   ErrUntrusted,
			}
		}
	}
	old, found := m.Models[p.Name]
	if !found {
		return false, nil
	}
	if p.SHA256 != old.SHA256 {
		return false, &Error{
			Message: fmt.Sprintf("another file is installed as %s: %s, SHA-256 %s", p.Name, old.URL, old.SHA256),
			Hint:    "Remove it with `metamcp model remove " + p.Name + "`, or give the new one another --name.",
		}
	}
	sum, err := sumOf(f.Path(p.Name))
	if err == nil && sum == old.SHA256 {
		return true, nil
	}
	p.tell(Progress{Note: "the installed file is missing or damaged, so it is downloaded again"})
	return false, nil
}

// adopt finds a file that got its name just before a crash.
func (f *Folder) adopt(p *plan) bool {
	sum, err := sumOf(f.Path(p.Name))
	return err == nil && sum == p.SHA256 && p.describe(f.Path(p.Name)) == nil
}

// accept checks a complete download and gives it its name.
func (f *Folder) accept(p *plan) error {
	part := f.part(p.Name)
	sum, err := sumOf(part)
	if err != nil {
		return err
	}
	if p.SHA256 == "" {
		p.SHA256 = sum
	}
	if sum != p.SHA256 {
		f.discard(p.Name)
		e := &Error{
			Message: fmt.Sprintf("the file at %s has the SHA-256 %s, not %s, and was deleted", p.URL, sum, p.SHA256),
			Hint:    "It is not the file that was meant, or was damaged on its way.", Cause: ErrChecksum,
		}
		if p.Trust == TrustFirstUse {
			e.Hint = "It is not the file that was there the first time. If you know why it changed, give the new checksum with --sha256."
		}
		return e
	}
	if err := p.describe(part); err != nil {
		f.discard(p.Name)
		return err
	}
	if err := os.Rename(part, f.Path(p.Name)); err != nil {
		return &Error{Message: fmt.Sprintf("the model file cannot be put in its place: %v", err), Hint: "Is metamcp using the old one? Stop it and try again.", Cause: err}
	}
	_ = os.Remove(part + ".json")
	return syncFolder(f.dir)
}

// describe reads what the file says of itself.
func (p *plan) describe(file string) error {
	info, err := gguf.ReadFile(file)
	if errors.Is(err, gguf.ErrFormat) {
		return &Error{
			Message: fmt.Sprintf("what is at %s is no model in the GGUF format: %s", p.URL, opening(file)), Cause: err,
			Hint: "Use the address of the file itself; on a hub it has /resolve/ in it, not /blob/.",
		}
	}
	if err != nil {
		return err
	}
	stat, err := os.Stat(file)
	if err != nil {
		return err
	}
	p.Size, p.Architecture, p.Dimension = stat.Size(), info.Architecture, info.EmbeddingLength
	return nil
}

// opening shows how a file begins that is not what it should be.
func opening(file string) string {
	in, err := regular.Open(file, os.O_RDONLY)
	if err != nil {
		return "unreadable"
	}
	defer func() { _ = in.Close() }()
	var begin [40]byte
	n, _ := io.ReadFull(in, begin[:]) // a short file is shown whole
	if strings.HasPrefix(string(begin[:n]), "version https://git-lfs") {
		return "it is a pointer of Git LFS, not the file it points to"
	}
	return fmt.Sprintf("it begins with %q", begin[:n])
}

// sumOf returns the SHA-256 of a file in hexadecimal digits.
func sumOf(file string) (string, error) {
	in, err := regular.Open(file, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// part is where a download is until it is complete.
func (f *Folder) part(name string) string { return filepath.Join(f.dir, "."+name+".part") }

func (f *Folder) discard(name string) {
	_ = os.Remove(f.part(name))
	_ = os.Remove(f.part(name) + ".json")
}
