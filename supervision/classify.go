package supervision

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/metamcp/metamcp/messages"
)

// Counts reports whether a breaker counts failures of class: all do but
// [messages.ClassAuth], which no waiting cures, and [messages.ClassNone],
// which is no failure.
func Counts(class messages.Class) bool {
	return class != messages.ClassAuth && class != messages.ClassNone
}

// InTrouble says whether a request that was not answered tells of trouble of the
// server, and not of the request: then it counts, as far as its class does.
func InTrouble(ev messages.Evidence) bool {
	switch status := ev.HTTPStatus; status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	default:
		return status < http.StatusBadRequest || status >= http.StatusInternalServerError
	}
}

// Classify says which part of the world failed. What the system said plainly
// decides first, in this order: HTTP status, a program that could not be
// started, the exit of the process, the end of its stream, errno and other
// error values, deadlines. Text is read last, and beside an exit or a broken
// stream only to tell a missing or refused credential, since nothing but the
// program's own words can say that.
//
// A cancellation and an exit that we asked for are [messages.ClassNone];
// evidence of nothing is [messages.ClassOther]. A server behind a URL has no
// process that could end: what would be that is a connection that broke.
func Classify(ev messages.Evidence) messages.Class {
	c := classify(ev)
	if ev.Remote && c == messages.ClassStdioExit {
		return messages.ClassOffline
	}
	return c
}

func classify(ev messages.Evidence) messages.Class {
	if c := classOfStatus(ev.HTTPStatus); c != messages.ClassNone {
		return c
	}
	if isSpawnFailure(ev.Err) {
		return messages.ClassOffline
	}
	asked := ev.Exit != nil && ev.Exit.Requested
	if ev.Exit != nil && !asked {
		if ev.Exit.Signal == "" && textClass(evidenceText(ev)) == messages.ClassAuth {
			return messages.ClassAuth
		}
		return messages.ClassStdioExit
	}
	if isStreamEnd(ev) && !asked {
		if textClass(evidenceText(ev)) == messages.ClassAuth {
			return messages.ClassAuth
		}
		return messages.ClassStdioExit
	}
	if isUnreachable(ev.Err) || ev.Timeout || isTimeout(ev.Err) {
		return messages.ClassOffline
	}
	if errors.Is(ev.Err, context.Canceled) {
		return messages.ClassNone
	}
	if c := textClass(evidenceText(ev)); c != messages.ClassNone {
		return c
	}
	if asked {
		return messages.ClassNone
	}
	return messages.ClassOther
}

// classOfStatus maps an HTTP status to a class; below 400 it says nothing.
func classOfStatus(status int) messages.Class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden,
		status == http.StatusProxyAuthRequired:
		return messages.ClassAuth
	case status == http.StatusRequestTimeout:
		return messages.ClassOffline
	case status >= 400:
		return messages.ClassHTTP
	}
	return messages.ClassNone
}

// unusableCommand are the errors by which a system refuses a command, its arguments
// and environment together, or its working directory.
var unusableCommand = []syscall.Errno{syscall.EACCES, syscall.ENOTDIR, syscall.E2BIG, syscall.ELOOP, syscall.ENAMETOOLONG}

// isSpawnFailure reports whether the program could not be started at all: not
// on the PATH, no such file or directory (also of the working directory), not
// executable, wrong format.
func isSpawnFailure(err error) bool {
	var execErr *exec.Error
	if errors.As(err, &execErr) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, exec.ErrDot) {
		return true
	}
	if errors.Is(err, syscall.ENOEXEC) || errors.Is(err, messages.ErrNotBounded) || isExhausted(err) {
		return true
	}
	// A socket file that does not exist is a dial that failed, not a spawn; it
	// is offline in any case.
	return errors.Is(err, fs.ErrNotExist) || slices.ContainsFunc(unusableCommand, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}

// isExhausted reports whether the system has no process, descriptor or memory
// left for another child.
func isExhausted(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// isStreamEnd reports whether a child's stream ended or broke while it was in
// use. The same errors on a network connection are those of an unreachable
// peer.
func isStreamEnd(ev messages.Evidence) bool {
	if isNetwork(ev.Err) {
		return false
	}
	return ev.EOF || errors.Is(ev.Err, io.EOF) || errors.Is(ev.Err, io.ErrUnexpectedEOF) ||
		errors.Is(ev.Err, io.ErrClosedPipe) || errors.Is(ev.Err, os.ErrClosed) ||
		errors.Is(ev.Err, syscall.EPIPE)
}

func isNetwork(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var u *url.Error
	return errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &u)
}

// unreachable are the errno values of a peer that is not there.
var unreachable = []error{
	syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.ETIMEDOUT,
	syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN,
	syscall.ENOTCONN, syscall.EPIPE,
}

// winsockUnreachable are the same as Windows numbers them; there the POSIX
// names stand for invented numbers that no system call returns.
var winsockUnreachable = map[syscall.Errno]bool{
	10050: true, // WSAENETDOWN
	10051: true, // WSAENETUNREACH
	10053: true, // WSAECONNABORTED
	10054: true, // WSAECONNRESET
	10057: true, // WSAENOTCONN
	10060: true, // WSAETIMEDOUT
	10061: true, // WSAECONNREFUSED
	10064: true, // WSAEHOSTDOWN
	10065: true, // WSAEHOSTUNREACH
}

func isUnreachable(err error) bool {
	if err == nil {
		return false
	}
	for _, e := range unreachable {
		if errors.Is(err, e) {
			return true
		}
	}
	var errno syscall.Errno
	if runtime.GOOS == "windows" && errors.As(err, &errno) && winsockUnreachable[errno] {
		return true
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return true
	}
	return isNetwork(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	// EAGAIN calls itself a timeout; from a fork it means that there may be no
	// more processes.
	var n net.Error
	return errors.As(err, &n) && n.Timeout() && !errors.Is(err, syscall.EAGAIN)
}

// maxEvidenceText bounds what the patterns are run over: the end of a log is
// where the reason stands, and they cost one to two
// microseconds per byte.
const maxEvidenceText = 4 << 10

// evidenceText joins all words there are: the error's, the child's, the end
// of its stderr.
func evidenceText(ev messages.Evidence) string {
	var parts []string
	if ev.Exit != nil {
		parts = append(parts, ev.Exit.Stderr...)
	}
	if ev.Text != "" {
		parts = append(parts, ev.Text)
	}
	if ev.Err != nil {
		parts = append(parts, ev.Err.Error())
	}
	text := strings.Join(parts, "\n")
	if len(text) > maxEvidenceText {
		text = text[len(text)-maxEvidenceText:]
	}
	return text
}
