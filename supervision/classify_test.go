package supervision_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

func dialError(errno syscall.Errno) error {
	return fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)})
}

func exitWith(code int, stderr ...string) messages.Evidence {
	return messages.Evidence{EOF: true, Exit: &messages.Exit{Code: code, Stderr: stderr}}
}

func starting(e messages.Evidence) messages.Evidence {
	e.Starting = true
	return e
}

func TestClassifyTyped(t *testing.T) {
	_, lookErr := exec.LookPath("metamcp-no-such-program")
	spawnErr := exec.Command(filepath.Join(t.TempDir(), "nothing")).Start()
	dirCmd := exec.Command(os.Args[0])
	dirCmd.Dir = filepath.Join(t.TempDir(), "nowhere")
	dirErr := dirCmd.Start()
	for name, err := range map[string]error{"look": lookErr, "spawn": spawnErr, "dir": dirErr} {
		if err == nil {
			t.Fatalf("%s: the fixture did not fail", name)
		}
	}
	for _, c := range []struct {
		name string
		ev   messages.Evidence
		want messages.Class
	}{
		{"401", messages.Evidence{HTTPStatus: 401}, messages.ClassAuth},
		{"403", messages.Evidence{HTTPStatus: 403}, messages.ClassAuth},
		{"407", messages.Evidence{HTTPStatus: 407}, messages.ClassAuth},
		{"408", messages.Evidence{HTTPStatus: 408}, messages.ClassOffline},
		{"404", messages.Evidence{HTTPStatus: 404}, messages.ClassHTTP},
		{"429", messages.Evidence{HTTPStatus: 429, RetryAfter: time.Minute}, messages.ClassHTTP},
		{"500", messages.Evidence{HTTPStatus: 500}, messages.ClassHTTP},
		{"502", messages.Evidence{HTTPStatus: 502}, messages.ClassHTTP},
		{"503 whose page talks of a login", messages.Evidence{HTTPStatus: 503, Text: "unauthorized"}, messages.ClassHTTP},
		{"200 with a text", messages.Evidence{HTTPStatus: 200, Text: "invalid api key"}, messages.ClassAuth},
		{"refused", messages.Evidence{Err: dialError(syscall.ECONNREFUSED)}, messages.ClassOffline},
		{"ETIMEDOUT", messages.Evidence{Err: dialError(syscall.ETIMEDOUT)}, messages.ClassOffline},
		{"reset", messages.Evidence{Err: dialError(syscall.ECONNRESET)}, messages.ClassOffline},
		{"EPIPE on a socket", messages.Evidence{Err: dialError(syscall.EPIPE)}, messages.ClassOffline},
		{"EPIPE on stdin", messages.Evidence{Err: &fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}}, messages.ClassStdioExit},
		{"refused, text says 401", messages.Evidence{Err: dialError(syscall.ECONNREFUSED), Text: "HTTP 401"}, messages.ClassOffline},
		{"DNS", messages.Evidence{Err: &net.DNSError{Err: "no such host", Name: "x.invalid", IsNotFound: true}}, messages.ClassOffline},
		{"not on PATH", messages.Evidence{Err: lookErr}, messages.ClassOffline},
		{"no more processes", messages.Evidence{Err: &os.PathError{Op: "fork/exec", Path: "/bin/x", Err: syscall.EAGAIN}}, messages.ClassOffline},
		{"spawn ENOENT", messages.Evidence{Err: spawnErr}, messages.ClassOffline},
		{"no such cwd", messages.Evidence{Err: dirErr}, messages.ClassOffline},
		{"a file as cwd", messages.Evidence{Err: &fs.PathError{Op: "chdir", Path: "/x", Err: syscall.ENOTDIR}}, messages.ClassOffline},
		{"too long", messages.Evidence{Err: &fs.PathError{Op: "fork/exec", Path: "/x", Err: syscall.E2BIG}}, messages.ClassOffline},
		{"EACCES", messages.Evidence{Err: &fs.PathError{Op: "fork/exec", Path: "/x", Err: syscall.EACCES}}, messages.ClassOffline},
		{"ENOEXEC", messages.Evidence{Err: &fs.PathError{Op: "fork/exec", Path: "/x", Err: syscall.ENOEXEC}}, messages.ClassOffline},
		{"our deadline", messages.Evidence{Timeout: true}, messages.ClassOffline},
		{"deadline value", messages.Evidence{Err: fmt.Errorf("x: %w", context.DeadlineExceeded)}, messages.ClassOffline},
		{"killed by us after a timeout", messages.Evidence{Timeout: true, EOF: true, Exit: &messages.Exit{Code: -1, Signal: "SIGKILL", Requested: true}}, messages.ClassOffline},
		{"exit 1", exitWith(1, "boom"), messages.ClassStdioExit},
		{"exit 0 unasked", exitWith(0), messages.ClassStdioExit},
		{"signal", messages.Evidence{Exit: &messages.Exit{Code: -1, Signal: "SIGSEGV"}}, messages.ClassStdioExit},
		{"OOM beside a complaint", messages.Evidence{Exit: &messages.Exit{Code: -1, Signal: "SIGKILL", Stderr: []string{"invalid api key"}}}, messages.ClassStdioExit},
		{"exit whose stderr says ECONNREFUSED", exitWith(1, "Error: connect ECONNREFUSED 127.0.0.1:5432"), messages.ClassStdioExit},
		{"exit, missing key", exitWith(1, "Error: Missing OPENAI_API_KEY environment variable", "    at main (index.js:3:9)", "Node.js v20.11.0"), messages.ClassAuth},
		{"exit, EPIPE, missing key", messages.Evidence{Err: &fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, Exit: &messages.Exit{Code: 1, Stderr: []string{"GITHUB_TOKEN is not set"}}}, messages.ClassAuth},
		{"EOF", messages.Evidence{EOF: true}, messages.ClassStdioExit},
		{"EOF value", messages.Evidence{Err: io.ErrUnexpectedEOF}, messages.ClassStdioExit},
		{"EOF of a remote", messages.Evidence{Err: &url.Error{Op: "Post", URL: "http://x", Err: io.EOF}}, messages.ClassOffline},
		{"EOF value of a remote", messages.Evidence{Err: io.EOF, Remote: true}, messages.ClassOffline},
		{"broken stream of a remote", messages.Evidence{Err: fmt.Errorf("x: %w", io.ErrUnexpectedEOF), Remote: true}, messages.ClassOffline},
		{"broken HTTP/2 stream of a remote", messages.Evidence{Err: errors.Join(errors.New("stream error: stream ID 5; INTERNAL_ERROR; received from peer"), io.ErrUnexpectedEOF), Remote: true}, messages.ClassOffline},
		{"a remote that says EOF", messages.Evidence{Err: errors.New("http2: unexpected EOF"), Remote: true}, messages.ClassOffline},
		{"500 of a remote", messages.Evidence{HTTPStatus: 500, Err: io.EOF, Remote: true}, messages.ClassHTTP},
		{"cancelled", messages.Evidence{Err: context.Canceled}, messages.ClassNone},
		{"asked to exit", messages.Evidence{EOF: true, Exit: &messages.Exit{Requested: true}}, messages.ClassNone},
		{"nothing", messages.Evidence{}, messages.ClassOther},
		{"some error", messages.Evidence{Err: errors.New("the moon is full")}, messages.ClassOther},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := supervision.Classify(c.ev); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestClassifyText(t *testing.T) {
	for want, texts := range map[messages.Class][]string{
		messages.ClassAuth: {
			"401", "HTTP 401", "HTTP/1.1 401 Unauthorized", "status code: 401", `{"status":403}`,
			"Request failed with status code 401", "server returned 403", "got 401 from upstream",
			"unauthorized (401)", "Unauthorized", "403 Forbidden", "Error: Invalid API key provided",
			"invalid api key", "incorrect API key", "Missing API key", "missing the OpenAI API key",
			"Missing required environment variable: BRAVE_API_KEY", "BRAVE_API_KEY environment variable is required",
			"Error: GITHUB_PERSONAL_ACCESS_TOKEN not set", "SLACK_BOT_TOKEN is not set",
			"You must provide an API key. API key is missing", "Please set the STRIPE_SECRET_KEY environment variable",
			"KeyError: 'OPENAI_API_KEY'", "token expired", "The token has expired", "jwt expired",
			"access token is invalid", "invalid_grant", `error="invalid_token"`, "authentication failed for user",
			"Authentication required", "OAuth token expired", "refresh token was revoked", "no credentials provided",
			"NOTION_TOKEN must be set", "transport error: authorization required",
		},
		messages.ClassHTTP: {
			"HTTP 503", "status 500", "status code 502", "429 Too Many Requests", "Bad Gateway",
			"rate limit exceeded", "Service Unavailable", "Internal Server Error", "request failed with status 500: x",
		},
		messages.ClassOffline: {
			"connect ECONNREFUSED 127.0.0.1:4010", "getaddrinfo ENOTFOUND api.example.com", "read ECONNRESET",
			"dial tcp: lookup x: no such host", "connection refused", "ETIMEDOUT", "spawn npx ENOENT",
			"sh: 1: uvx: command not found", "i/o timeout", "context deadline exceeded", "socket hang up",
			"no route to host", "Request timed out",
		},
		messages.ClassStdioExit: {
			"exit status 1", "process exited with code 137", "signal: killed", "Segmentation fault",
			"write |1: broken pipe", "unexpected EOF",
		},
		messages.ClassOther: {
			"listening on port 4010", "took 401 ms", "error on line 401", "received 401 bytes", "returned 401 rows",
			"got 403 results", "SyntaxError: Invalid or unexpected token", "unexpected token < in JSON",
			"4012 items", "primary_key is required", "exit status 0", "GITHUB_TOKEN is set",
			"error 4010", "keyboard is missing", "the monkey expired", "tokens per second: 500", "", "geoffline",
		},
	} {
		for _, text := range texts {
			if got := supervision.Classify(messages.Evidence{Text: text}); got != want {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		}
	}
}

func TestCounts(t *testing.T) {
	for class, want := range map[messages.Class]bool{
		messages.ClassAuth: false, messages.ClassNone: false, messages.ClassOffline: true,
		messages.ClassHTTP: true, messages.ClassStdioExit: true, messages.ClassOther: true,
	} {
		if got := supervision.Counts(class); got != want {
			t.Errorf("%q: got %v", class, got)
		}
	}
}

func TestDescribe(t *testing.T) {
	_, lookErr := exec.LookPath("metamcp-no-such-program")
	for _, c := range []struct {
		name      string
		ev        messages.Evidence
		message   []string
		hint      []string
		retryable bool
	}{
		{"not on PATH", messages.Evidence{Err: lookErr},
			[]string{`server "s"`, "offline", `"metamcp-no-such-program"`, "not found"}, []string{"Install", "PATH", "full path"}, false},
		{"with its arguments", messages.Evidence{Err: errors.Join(lookErr, &messages.ArgsInCommandError{Line: "npx -y x"})},
			[]string{"offline", "not found"}, []string{`{"command": "npx", "args": ["-y", "x"]}`}, false},
		{"no cwd", messages.Evidence{Err: &fs.PathError{Op: "chdir", Path: "/w", Err: syscall.ENOENT}},
			[]string{`working directory "/w" does not exist`}, []string{`"cwd"`}, false},
		{"not executable", messages.Evidence{Err: &fs.PathError{Op: "fork/exec", Path: "/w", Err: syscall.EACCES}},
			[]string{"permission denied"}, []string{"chmod +x"}, false},
		{"missing key", exitWith(1, "Error: Missing GITHUB_TOKEN", "  at x.js:1", "Node.js v20"),
			[]string{"auth", "code 1", "Missing GITHUB_TOKEN"}, []string{"GITHUB_TOKEN", "env"}, false},
		{"401", messages.Evidence{HTTPStatus: 401}, []string{"auth", "HTTP 401 Unauthorized"}, []string{"headers", "oauth"}, false},
		{"403", messages.Evidence{HTTPStatus: 403}, []string{"HTTP 403"}, []string{"permission or scope"}, false},
		{"429", messages.Evidence{HTTPStatus: 429, RetryAfter: 90 * time.Second}, []string{"http", "HTTP 429"}, []string{"90 s"}, true},
		{"404", messages.Evidence{HTTPStatus: 404}, []string{"HTTP 404"}, []string{"url"}, false},
		{"exit", exitWith(3, "Error: cannot open db", "    at foo"), []string{"stdio-exit", "code 3", "cannot open db"}, []string{"stderr", "details"}, true},
		{"half a package", exitWith(254, "npm error code ENOENT", "npm error Could not read package.json: Error: ENOENT: no such file or directory, open '/h/.npm/_npx/68b53d3fd47bf8db/package.json'"),
			[]string{"code 254"}, []string{"delete the folder /h/.npm/_npx/68b53d3fd47bf8db and"}, false},
		{"half of what a package needs", exitWith(1, "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from file:///h/.npm/_npx/0a1b/node_modules/x/index.js"),
			[]string{"code 1"}, []string{"delete the folder /h/.npm/_npx/0a1b and"}, false},
		{"a package's own mistake", exitWith(1, "Error: ENOENT: no such file or directory, open 'x.db'", "    at /h/.npm/_npx/0a1b/node_modules/x/index.js:1"),
			[]string{"code 1"}, []string{"stderr"}, true},
		{"no MCP server", starting(exitWith(0, "not JSON-RPC on stdout: hello", "not JSON-RPC on stdout: bye")), []string{"code 0", "bye"}, []string{"does not seem to be an MCP server"}, true},
		{"a server that logs to stdout", exitWith(1, "not JSON-RPC on stdout: request handled"), []string{"code 1"}, []string{"stderr"}, true},
		{"a banner, and a reason", exitWith(1, "not JSON-RPC on stdout: hello", "Error: no db"), []string{"code 1", "no db"}, []string{"stderr"}, true},
		{"silent exit", exitWith(3), []string{"code 3"}, []string{"nothing on stderr"}, true},
		{"127", exitWith(127, "sh: uvx: not found"), []string{"code 127"}, []string{"install"}, false},
		{"signal", messages.Evidence{Exit: &messages.Exit{Code: -1, Signal: "SIGKILL"}}, []string{"killed by SIGKILL"}, []string{"memory"}, true},
		{"crash", messages.Evidence{Exit: &messages.Exit{Code: -1, Signal: "SIGSEGV", Stderr: []string{"thread main panicked"}}}, []string{"killed by SIGSEGV"}, []string{"crashed by itself", "in details"}, true},
		{"silent crash", messages.Evidence{Exit: &messages.Exit{Code: -1, Signal: "SIGABRT"}}, []string{"SIGABRT"}, []string{"crashed by itself", "nothing on stderr"}, true},
		{"a file as cwd", messages.Evidence{Err: &fs.PathError{Op: "chdir", Path: "/w", Err: syscall.ENOTDIR}},
			[]string{`working directory "/w"`, "not a directory"}, []string{`"cwd"`}, false},
		{"arguments too long", messages.Evidence{Err: &fs.PathError{Op: "fork/exec", Path: "/x", Err: syscall.E2BIG}},
			[]string{"argument list too long"}, []string{`"args"`, "longer than the system takes"}, false},
		{"timeout", messages.Evidence{Timeout: true}, []string{"offline", "did not answer in time"}, []string{"startupTimeoutMs"}, true},
		{"DNS", messages.Evidence{Err: &net.DNSError{Err: "no such host", Name: "x.invalid"}}, []string{`"x.invalid"`}, []string{"DNS"}, true},
		{"refused", messages.Evidence{Err: dialError(syscall.ECONNREFUSED)}, []string{"offline", "connection refused"}, []string{"running", "port"}, true},
		{"no such program", messages.Evidence{Err: &fs.PathError{Op: "fork/exec", Path: "/opt/x", Err: syscall.ENOENT}},
			[]string{`command "/opt/x" does not exist`}, []string{"Install"}, false},
		{"wrong format", messages.Evidence{Err: &fs.PathError{Op: "fork/exec", Path: "/opt/x", Err: syscall.ENOEXEC}},
			[]string{"exec format error"}, []string{"no program for this system"}, false},
		{"auth in words", messages.Evidence{Text: "login failed\nInvalid API key\nbye, error"}, []string{"auth", "Invalid API key"}, []string{"API key or token"}, false},
		{"503", messages.Evidence{HTTPStatus: 503, Text: "<html>"}, []string{"HTTP 503 Service Unavailable: <html>"}, []string{"later"}, true},
		{"599", messages.Evidence{HTTPStatus: 599}, []string{"HTTP 599"}, []string{"later"}, true},
		{"422", messages.Evidence{HTTPStatus: 422}, []string{"HTTP 422"}, []string{"refused the request"}, false},
		{"429 without a time", messages.Evidence{HTTPStatus: 429}, []string{"HTTP 429"}, []string{"wait before"}, true},
		{"EOF", messages.Evidence{EOF: true}, []string{"stdio-exit", "ended in the middle"}, []string{"started anew"}, true},
		{"exit 0", exitWith(0), []string{"code 0"}, []string{"by hand"}, true},
		{"output closed", messages.Evidence{EOF: true, Exit: &messages.Exit{Lives: true}}, []string{"stdio-exit): the server closed its output but did not exit"}, []string{"by hand"}, true},
		{"input closed", messages.Evidence{Err: syscall.EPIPE, EOF: true, Exit: &messages.Exit{Lives: true}}, []string{"stdio-exit): the server closed its input but did not exit: broken pipe"}, []string{"by hand"}, true},
		{"input unread", messages.Evidence{Err: errors.New("it reads nothing"), EOF: true, Exit: &messages.Exit{Lives: true}}, []string{"stdio-exit): the server did not exit, but cannot be spoken with: it reads nothing"}, []string{"by hand"}, true},
		{"126", exitWith(126), []string{"code 126"}, []string{"executable"}, false},
		{"proxy", messages.Evidence{HTTPStatus: 407}, []string{"HTTP 407"}, []string{"HTTPS_PROXY"}, false},
		{"cancelled", messages.Evidence{Err: context.Canceled}, []string{"on request"}, nil, false},
		{"nothing", messages.Evidence{}, []string{"other", "no details"}, []string{"by hand"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := supervision.Describe("s", c.ev)
			if e.Code != messages.CodeConnection || e.Server != "s" || e.Class != supervision.Classify(c.ev) {
				t.Errorf("wrong frame: %+v", e)
			}
			if e.Retryable != c.retryable {
				t.Errorf("retryable is %v", e.Retryable)
			}
			if e.RetryAfter != c.ev.RetryAfter {
				t.Errorf("RetryAfter is %v", e.RetryAfter)
			}
			if strings.ContainsAny(e.Message, "\n\r\x1b") {
				t.Errorf("not one line: %q", e.Message)
			}
			for _, s := range c.message {
				if !strings.Contains(e.Message, s) {
					t.Errorf("message %q lacks %q", e.Message, s)
				}
			}
			for _, s := range c.hint {
				if !strings.Contains(e.Hint, s) {
					t.Errorf("hint %q lacks %q", e.Hint, s)
				}
			}
			if c.ev.Err != nil && !errors.Is(e, c.ev.Err) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestDescribeBoundsWhatAChildSays(t *testing.T) {
	var stderr []string
	for i := range 20 {
		stderr = append(stderr, fmt.Sprintf("\x1b[31mline %d\x1b[0m \x07\xff", i), "", strings.Repeat("é", 400))
	}
	e := supervision.Describe("s", exitWith(1, stderr...))
	if len(e.Details) != 5 {
		t.Fatalf("%d lines", len(e.Details))
	}
	for _, line := range e.Details {
		if len(line) > 300 || !utf8.ValidString(line) || strings.ContainsAny(line, "\x1b\x07\n") {
			t.Errorf("bad line (%d bytes): %q", len(line), line)
		}
	}
	if want := "line 19 \uFFFD"; e.Details[3] != want {
		t.Errorf("got %q, want %q", e.Details[3], want)
	}
	if len(e.Message) > 500 {
		t.Errorf("message of %d bytes", len(e.Message))
	}
	if stderr[0] != "\x1b[31mline 0\x1b[0m \x07\xff" {
		t.Error("the evidence was changed")
	}
}

// TestDescribeShowsWhatALivingProcessSaid, and makes nothing of it: neither the class
// nor the cause.
func TestDescribeShowsWhatALivingProcessSaid(t *testing.T) {
	for _, ev := range []messages.Evidence{
		{Timeout: true, Text: "no answer within 5s"},
		{Text: "initialize was refused: no; server/discover was refused: no"},
	} {
		without := supervision.Describe("s", ev)
		ev.Log = []string{"", "\x1b[31mError: 401 Unauthorized\x1b[0m", "out of memory"}
		e := supervision.Describe("s", ev)
		if want := []string{"Error: 401 Unauthorized", "out of memory"}; !slices.Equal(e.Details, want) {
			t.Errorf("details %q, want %q", e.Details, want)
		}
		if e.Class != without.Class || e.Message != without.Message || e.Hint != without.Hint {
			t.Errorf("%+v; without the log %+v", e, without)
		}
	}
	e := supervision.Describe("s", messages.Evidence{Text: "first\nsecond", Log: []string{"a", "b", "c", "d"}})
	if want := []string{"b", "c", "d", "first", "second"}; !slices.Equal(e.Details, want) {
		t.Errorf("details %q, want %q", e.Details, want)
	}
}

func FuzzDescribe(f *testing.F) {
	f.Add("Error: 401", 1)
	f.Add("\x1b]0;title\xff\n\n401", 0)
	f.Fuzz(func(t *testing.T, text string, code int) {
		for _, ev := range []messages.Evidence{{Text: text}, {Err: errors.New(text), HTTPStatus: code}, exitWith(code, text)} {
			e := supervision.Describe("s", ev)
			if !utf8.ValidString(e.Message) || strings.ContainsAny(e.Message, "\n\x1b") {
				t.Errorf("not one clean line: %q", e.Message)
			}
		}
	})
}

// EAGAIN calls itself a timeout, and a fork that fails with it has nothing to
// do with one.
func TestDescribeExhaustion(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE} {
		e := supervision.Describe("s", messages.Evidence{Err: &os.PathError{Op: "fork/exec", Path: "/bin/x", Err: errno}})
		if strings.Contains(e.Message, "in time") || !strings.Contains(e.Hint, "ulimit") {
			t.Errorf("%v: %s (%s)", errno, e.Message, e.Hint)
		}
	}
}

// A server behind a URL has no command, no process and no environment: nothing
// that is said of one speaks of them.
func TestDescribeRemote(t *testing.T) {
	for name, ev := range map[string]messages.Evidence{
		"closed":      {Err: io.EOF, Text: "the server closed the connection before it had answered"},
		"cut":         {Err: io.ErrUnexpectedEOF},
		"refused":     {Err: dialError(syscall.ECONNREFUSED)},
		"forbidden":   {Err: dialError(syscall.EACCES)},
		"no file":     {Err: &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}},
		"late":        {Timeout: true, Text: "no handshake"},
		"other":       {Err: errors.New("it answered with a page")},
		"token":       {Text: "invalid access token"},
		"named token": {HTTPStatus: 401, Text: "GITHUB_TOKEN is not set"},
		"401":         {HTTPStatus: 401},
		"500":         {HTTPStatus: 500},
		"nothing":     {},
	} {
		ev.Remote = true
		err := supervision.Describe("x", ev)
		for _, word := range []string{"command", "process", "by hand", "stdio", "stderr", "npx", `"env"`, "output"} {
			if strings.Contains(err.Message+" "+err.Hint, word) {
				t.Errorf("%s speaks of %q: %s %s", name, word, err.Message, err.Hint)
			}
		}
	}
	err := supervision.Describe("x", messages.Evidence{Err: io.EOF, Text: "the server closed the connection", Remote: true})
	if want := `server "x" could not be reached (offline): the server closed the connection`; err.Message != want || !err.Retryable {
		t.Errorf("%s, want %s", err.Message, want)
	}
	err = supervision.Describe("x", messages.Evidence{Err: errors.New("x509"), Remote: true, Advice: "Do that."})
	if err.Hint != "Do that." || !err.Retryable {
		t.Errorf("%+v", err)
	}
}
