package attach

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/lineage"
)

const (
	// Protocol is the number of what this package speaks. Relay and host must
	// have the same one; it changes when they would misunderstand each other.
	Protocol = 1
	// Endpoint is where a client attaches, at the control socket.
	Endpoint = "/v1/attach"
	// Upgrade is the protocol to which the connection changes.
	Upgrade = "metamcp-relay"
	// HelloHeader carries the greeting of a relay as JSON.
	HelloHeader = "Metamcp-Hello"
	// WelcomeHeader carries that of the host.
	WelcomeHeader = "Metamcp-Welcome"
	// DrainingMethod is the one notification of a host to a relay: it ends soon,
	// so new requests belong to the host that comes after it. It is not for the
	// client.
	DrainingMethod = "notifications/metamcp/draining"

	maxHeader = 64 << 10
	maxBody   = 64 << 10
	// answerPatience is how long a host may take to answer the greeting. It
	// does so at once, unless it is stopped or the machine is busy.
	answerPatience = 10 * time.Second
	// EarlyPatience is how long a client's metamcp tries before all of it is set up.
	EarlyPatience = 5 * time.Second
)

// CodeProtocol is of a host that speaks another [Protocol].
const CodeProtocol = "PROTOCOL_MISMATCH"

// Hello is what a relay says of itself and its client.
type Hello struct {
	Protocol int `json:"protocol"`
	PID      int `json:"pid"`
	// Resumed says that the client had a session with a host before.
	Resumed bool `json:"resumed,omitempty"`
	// Settings are those that flags and variables of the client's metamcp set,
	// by their paths. A host follows those that are of a session and ignores the
	// others, which are its own to say.
	Settings map[string]string `json:"settings,omitempty"`
	// Chain is through which entries the relay was started: what the host starts while
	// the client is there stands behind those, too.
	Chain lineage.Chain `json:"chain,omitzero"`
}

// Welcome is a host's answer.
type Welcome struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	PID      int    `json:"pid"`
	Name     string `json:"name"`
	// Notes are for the person behind the client, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// RefusedError is a host's answer that lets nobody in.
type RefusedError struct {
	Status  int    `json:"-"` // of HTTP
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Error returns message and hint, for people.
func (r *RefusedError) Error() string {
	if r.Hint == "" {
		return r.Message
	}
	return r.Message + "; " + r.Hint
}

// Incompatible tells whether the host cannot be attached to because it is of
// another version: one that speaks another protocol, or knows of none.
func (r *RefusedError) Incompatible() bool { return r.Code == CodeProtocol || r.Status == 404 }

// ErrNoHost says that no host runs.
var ErrNoHost = errors.New("no host runs for this configuration")

// HangsError is of a host that takes connections and does not answer.
type HangsError struct{ Host HostInfo }

// HangsHint is what to do about it.
const HangsHint = "End it with `metamcp host stop --force`; clients that are attached go on with the next host."

// Error implements error.
func (h *HangsError) Error() string {
	return fmt.Sprintf("the host %s (pid %d) takes connections and does not answer: it is stopped (SIGSTOP) or overloaded", h.Host.Name, h.Host.PID)
}

// NotOursError is of a socket that [DialSocket] does not use, since another user listens
// there or may do so. It says nothing of the host, which may be well.
type NotOursError struct{ Cause error }

// Error implements error.
func (e *NotOursError) Error() string { return e.Cause.Error() }

// Unwrap returns what was found.
func (e *NotOursError) Unwrap() error { return e.Cause }

// Conn is an attached connection: after the greetings, lines of MCP.
type Conn struct {
	net.Conn
	Host    HostInfo
	Welcome Welcome
	rest    *bufio.Reader // holds what came behind the welcome
}

// Read implements io.Reader.
func (c *Conn) Read(p []byte) (int, error) {
	if c.rest != nil {
		if c.rest.Buffered() > 0 {
			return c.rest.Read(p)
		}
		c.rest = nil
	}
	return c.Conn.Read(p)
}

// CloseWrite tells the host that nothing more comes; where the system has no
// such thing it returns false and does nothing.
func (c *Conn) CloseWrite() bool {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}

// Connect attaches to the host that runs for these configuration files. The
// error is [ErrNoHost], a [*RefusedError], or says why a host that is announced
// cannot be reached. A host in a folder that is not this user's alone is none, also
// where root asks: what a client says and is told is not for who may listen there.
func Connect(ctx context.Context, stateDir string, configs []string, hello Hello) (*Conn, error) {
	if CheckFolder(filepath.Join(stateDir, HostsDir)) != nil {
		return nil, ErrNoHost
	}
	var failed error
	for _, h := range Find(stateDir, configs) {
		c, err := Dial(ctx, h, hello)
		if err == nil {
			return c, nil
		}
		if failed == nil && !NobodyListens(err) {
			failed = err
		}
	}
	if failed == nil {
		failed = ErrNoHost
	}
	return nil, failed
}

// Dial attaches to one host.
func Dial(ctx context.Context, host HostInfo, hello Hello) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	conn, err := DialSocket(ctx, host.Socket)
	if err != nil {
		return nil, fmt.Errorf("the host %s (pid %d) cannot be reached: %w", host.Name, host.PID, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends what waits
	c, err := greet(conn, host, hello)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		_ = conn.Close() // nothing of the client was sent
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, &HangsError{host}
		}
		var refused *RefusedError
		if errors.As(err, &refused) {
			return nil, err
		}
		return nil, fmt.Errorf("the host %s (pid %d) does not answer: %w", host.Name, host.PID, err)
	}
	return c, nil
}

// greet speaks the little HTTP that the handshake is.
func greet(conn net.Conn, host HostInfo, hello Hello) (*Conn, error) {
	hello.Protocol = Protocol
	text, err := json.Marshal(hello)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: metamcp\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n",
		Endpoint, Upgrade, HelloHeader, text)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: conn, Host: host, rest: bufio.NewReader(conn)}
	status, headers, err := c.head()
	if err != nil {
		return nil, err
	}
	if status != 101 {
		return nil, c.refusal(status, headers)
	}
	if err := json.Unmarshal([]byte(headers[strings.ToLower(WelcomeHeader)]), &c.Welcome); err != nil {
		return nil, fmt.Errorf("its greeting is not understood: %w", err)
	}
	if c.Welcome.Protocol != Protocol {
		return nil, &RefusedError{Code: CodeProtocol, Message: fmt.Sprintf("the host %s (metamcp %s) speaks protocol %d, this metamcp %d", host.Name, host.Version, c.Welcome.Protocol, Protocol)}
	}
	return c, nil
}

// head reads the head of the answer.
func (c *Conn) head() (status int, headers map[string]string, err error) {
	headers = map[string]string{}
	for size, first := 0, true; ; first = false {
		line, err := c.headLine(maxHeader - size)
		if err != nil {
			return 0, nil, err
		}
		size += len(line)
		line = strings.TrimRight(line, "\r\n")
		switch {
		case first:
			words := strings.Fields(line)
			if len(words) < 2 || !strings.HasPrefix(words[0], "HTTP/1.") {
				return 0, nil, fmt.Errorf("it answers %.40q", line)
			}
			if status, err = strconv.Atoi(words[1]); err != nil {
				return 0, nil, fmt.Errorf("it answers %.40q", line)
			}
		case line == "":
			return status, headers, nil
		default:
			name, value, _ := strings.Cut(line, ":")
			headers[strings.ToLower(name)] = strings.TrimSpace(value)
		}
	}
}

// headLine reads one line of at most so many bytes.
func (c *Conn) headLine(most int) (string, error) {
	var line []byte
	for {
		piece, err := c.rest.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > most:
			return "", errors.New("its answer is too long")
		case err == nil:
			return string(line), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// refusal reads why the host lets nobody in.
func (c *Conn) refusal(status int, headers map[string]string) error {
	r := &RefusedError{}
	n, err := strconv.ParseInt(headers["content-length"], 10, 64)
	if err == nil && n >= 0 && n <= maxBody {
		text := make([]byte, n)
		if _, err = io.ReadFull(c.rest, text); err == nil {
			err = json.Unmarshal(text, r)
		}
	}
	if err != nil || r.Message == "" {
		r.Message = fmt.Sprintf("the host %s answered with status %d", c.Host.Name, status)
	}
	r.Status = status
	return r
}
