package supervision

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/metamcp/metamcp/messages"
)

// Bounds of what an error shows of a child's own words.
const (
	maxLine        = 300 // bytes of the cause, and of each line of the details
	maxDetailLines = 5
)

// Describe turns evidence into the error that a caller gets:
// SERVER_CONNECTION_ERROR with the class, the cause in one line, what to do
// about it, and the end of the child's stderr in Details (at most 5 lines of
// at most 300 bytes, without terminal escapes). An error with the code
// CONFIGURATION_ERROR in the evidence is returned as it is. The child's words are in it as
// they are: whoever shows the error scrubs it of secrets. Retryable is false
// where repeating cannot help before somebody changes something; it does not
// say whether repeating this call is safe.
func Describe(server string, ev messages.Evidence) *messages.Error {
	class := Classify(ev)
	var own *messages.Error
	if errors.As(ev.Err, &own) && own.Code == messages.CodeConfiguration {
		// Whoever starts processes refused to start this one, and said why.
		refused := *own
		refused.Server, refused.Class, refused.Retryable, refused.Cause = server, class, false, ev.Err
		return &refused
	}
	f := finding{server: server, class: class, ev: ev, text: evidenceText(ev)}
	hint, retryable := f.advice()
	hint = f.memoryAdvice() + hint
	return &messages.Error{
		Code:       messages.CodeConnection,
		Message:    fmt.Sprintf("server %q %s: %s", server, f.verdict(), oneLine(f.cause())),
		Server:     server,
		Class:      class,
		Retryable:  retryable,
		Hint:       hint,
		RetryAfter: max(ev.RetryAfter, 0),
		Details:    f.details(),
		Cause:      ev.Err,
	}
}

func (f finding) verdict() string {
	switch f.class {
	case messages.ClassAuth:
		return "lacks or refused a credential (auth)"
	case messages.ClassOffline:
		switch {
		case f.notStarted() && !f.ev.Remote:
			return "could not be started (offline)"
		case f.ev.Timeout && !f.ev.Remote:
			return "is silent (offline)"
		}
		return "could not be reached (offline)"
	case messages.ClassHTTP:
		return "answered with an HTTP error (http)"
	case messages.ClassStdioExit:
		return "ended unexpectedly (stdio-exit)"
	case messages.ClassNone:
		return "was closed on request"
	case messages.ClassOther:
	}
	return "failed (other)"
}

// finding is classified evidence on its way into words.
type finding struct {
	server string
	class  messages.Class
	ev     messages.Evidence
	text   string
}

// exit returns how the process ended, unless we asked for it.
func (f finding) exit() *messages.Exit {
	if f.ev.Exit == nil || f.ev.Exit.Requested {
		return nil
	}
	return f.ev.Exit
}

// notStarted says whether it is about a program that could not be started, or
// the system had nothing left for another connection.
func (f finding) notStarted() bool {
	return isSpawnFailure(f.ev.Err) && (!f.ev.Remote || isExhausted(f.ev.Err))
}

func (f finding) cause() string {
	var dns *net.DNSError
	switch {
	case f.ev.HTTPStatus >= 400:
		return withDetail(httpStatus(f.ev.HTTPStatus), f.tellingLine())
	case f.notStarted():
		return spawnCause(f.ev.Err)
	case f.exit() != nil && f.exit().Lives:
		return withDetail(f.overCause(), f.tellingLine())
	case f.exit() != nil:
		return withDetail(exitCause(f.exit()), f.tellingLine())
	case f.class == messages.ClassNone:
		return "nothing is wrong with it"
	case f.class == messages.ClassAuth:
		return f.tellingLine()
	case f.class == messages.ClassStdioExit:
		return withDetail("its output ended in the middle of the conversation", f.tellingLine())
	case errors.As(f.ev.Err, &dns):
		return fmt.Sprintf("host name %q could not be resolved: %s", dns.Name, dns.Err)
	case isUnreachable(f.ev.Err):
		return f.ev.Err.Error()
	case f.ev.Timeout || isTimeout(f.ev.Err):
		return withDetail("it did not answer in time", f.tellingLine())
	case f.ev.Remote && f.ev.Text != "":
		return f.ev.Text // for people already, unlike a log
	}
	if line := f.tellingLine(); line != "" {
		return line
	}
	return "no details are known"
}

// advice returns what to do next and whether a repetition could help as
// things are.
func (f finding) advice() (hint string, retryable bool) {
	switch {
	case f.class == messages.ClassNone:
		return "", false
	case f.ev.Advice != "":
		return f.ev.Advice, f.class != messages.ClassAuth
	case f.class == messages.ClassAuth:
		return f.authAdvice(), false
	case f.notStarted():
		return f.spawnAdvice(), isExhausted(f.ev.Err) // what is idle may have ended by then
	case f.class == messages.ClassHTTP:
		return f.httpAdvice()
	case f.exit() != nil:
		return f.exitAdvice()
	}
	var dns *net.DNSError
	switch f.class {
	case messages.ClassStdioExit:
		return "The process or its pipe broke; it is started anew with the next call. If it happens again, run the command by hand and read its stderr.", true
	case messages.ClassNone, messages.ClassAuth, messages.ClassHTTP, messages.ClassOther:
	case messages.ClassOffline:
		if errors.As(f.ev.Err, &dns) {
			return fmt.Sprintf("Check the host name in the url of server %q and the network's DNS.", f.server), true
		}
		switch late := f.ev.Timeout || isTimeout(f.ev.Err); {
		case late && f.ev.Remote:
			return fmt.Sprintf("Try again later. If server %q is slow by nature, raise startupTimeoutMs (connection and handshake) or timeoutMs (one call) in its entry.", f.server), true
		case late:
			return fmt.Sprintf("Try again later. If server %q is slow by nature, raise startupTimeoutMs (start and handshake; npx and uvx download on the first run) or timeoutMs (one call) in its entry.", f.server), true
		case f.ev.Remote:
			return fmt.Sprintf("Check that server %q is running, that its url in the configuration is right, and that the network (or a proxy on the way) lets the connection through.", f.server), true
		}
		return fmt.Sprintf("Check that server %q is running and that its address and port in the configuration are right.", f.server), true
	}
	if f.ev.Remote {
		return fmt.Sprintf("Check the url of server %q: it has to be that of the MCP endpoint itself, path included, and \"type\" (\"http\" or \"sse\"), where it is set, what is spoken there.", f.server), true
	}
	return fmt.Sprintf("Run the command of server %q by hand, or look at its log, to see what is wrong.", f.server), true
}

// What npm and node say of a package of which a part is missing, and npx's
// folder of it.
var (
	missingPart = regexp.MustCompile(`ERR_MODULE_NOT_FOUND|Cannot find (module|package)|Could not read package\.json`)
	npxFolder   = regexp.MustCompile(`[^\s'"(]*[/\\]_npx[/\\][0-9a-f]+`)
)

// damagedPackage returns the folder of npx that holds half a package, or "".
func (f finding) damagedPackage() string {
	if !missingPart.MatchString(f.text) {
		return ""
	}
	return strings.TrimPrefix(npxFolder.FindString(f.text), "file://")
}

func (f finding) authAdvice() string {
	if name := credentialName(f.text); name != "" && !f.ev.Remote {
		return fmt.Sprintf("Set a valid %s in \"env\" of server %q in the configuration. Repeating the call does not help.", name, f.server)
	}
	switch f.ev.HTTPStatus {
	case http.StatusForbidden:
		return fmt.Sprintf("The credential of server %q lacks the permission or scope for this; give it another one in \"headers\" or \"oauth\". Repeating the call does not help.", f.server)
	case http.StatusProxyAuthRequired:
		return "The HTTP proxy wants a user and password: set them in HTTPS_PROXY (HTTP_PROXY for a url with http://), or name the host in NO_PROXY. Repeating the call does not help."
	case 0:
		if f.ev.Remote {
			return fmt.Sprintf("Check the token in \"headers\" or \"oauth\" of server %q. Repeating the call does not help.", f.server)
		}
		return fmt.Sprintf("Check the API key or token in \"env\" (or \"headers\") of server %q; the name of the variable is in the server's documentation. Repeating the call does not help.", f.server)
	}
	return fmt.Sprintf("Log in again, or renew the token in \"headers\" or \"oauth\" of server %q. Repeating the call does not help.", f.server)
}

func (f finding) spawnAdvice() string {
	var path *fs.PathError
	var line *messages.ArgsInCommandError
	switch {
	case errors.As(f.ev.Err, &line):
		return line.Advice()
	case errors.As(f.ev.Err, &path) && path.Op == "chdir":
		return fmt.Sprintf("Create the directory, or correct \"cwd\" of server %q.", f.server)
	case errors.Is(f.ev.Err, messages.ErrNotBounded):
		return fmt.Sprintf("Remove that limit from \"limits\" of server %q, or run the host where it can be kept: `metamcp host install` has systemd give the host control groups (docs/ISOLATION.md).", f.server)
	case errors.Is(f.ev.Err, syscall.E2BIG):
		return fmt.Sprintf("Arguments and environment of server %q, or one of them, are longer than the system takes: shorten \"args\" and \"env\", or have the server read a file.", f.server)
	case isExhausted(f.ev.Err):
		return "End something, raise the limit (ulimit -u for processes, ulimit -n for descriptors), or lower pool.poolSize."
	case errors.Is(f.ev.Err, fs.ErrPermission):
		return "Make the file executable (chmod +x), or start it through its interpreter."
	case errors.Is(f.ev.Err, syscall.ENOEXEC):
		return "The file is no program for this system: install the build for it, or start a script through its interpreter."
	}
	return fmt.Sprintf("Install the command, or give its full path as \"command\" of server %q; it is looked up on the PATH of the host (or of the entry's \"env\"), which may be shorter than your shell's.", f.server)
}

func (f finding) httpAdvice() (hint string, retryable bool) {
	status := f.ev.HTTPStatus
	if f.ev.RetryAfter > 0 {
		return fmt.Sprintf("The server asks not to be called again before %s have passed.", inWords(f.ev.RetryAfter)), true
	}
	switch {
	case status == http.StatusTooManyRequests:
		return "Too many requests: wait before calling it again, and call it less often.", true
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusGone:
		return fmt.Sprintf("Check the url of server %q (its path too) and whether \"type\" (\"http\" or \"sse\"), where it is set, is what is spoken there.", f.server), false
	case status >= 400 && status < 500:
		return fmt.Sprintf("The server refused the request itself; check the url and headers of server %q.", f.server), false
	}
	return "The trouble is on the server's side: try again later.", true
}

// crashes are the signals by which a system ends a program for what it did itself.
var crashes = append([]string{"SIGFPE", "SIGSYS"}, brokenDown...)

func (f finding) exitAdvice() (hint string, retryable bool) {
	e := f.exit()
	if folder := f.damagedPackage(); folder != "" {
		return fmt.Sprintf("npx has half a package, as after a download that was broken off: delete the folder %s and try again.", folder), false
	}
	switch {
	case e.OverLimit:
		return fmt.Sprintf("The processes of server %q together had used the memory that limits.memoryMB gives them: raise that, or look why it needs so much. It is started anew with the next call; the same call may end the same way.", f.server), false
	case e.Refused > 0:
		return fmt.Sprintf("limits.processes of server %q did not let it start more processes and threads (%d were refused), which may be why it ended: raise that.", f.server, e.Refused), false
	case e.OutOfMemory:
		return fmt.Sprintf("Server %q, or what runs beside it, needs more memory than there is: give the machine or container more, lower pool.poolSize, or bound the server with limits.memoryMB. It is started anew with the next call.", f.server), true
	case e.Signal == "SIGXCPU":
		return fmt.Sprintf("The process had used the processor time that limits.cpuSeconds of server %q gives it: raise that, or look why it computes so long. It is started anew with the next call; the same call would end the same way.", f.server), false
	case noMemory().MatchString(f.text):
		return fmt.Sprintf("The process got no more memory: raise limits.memoryMB of server %q, which bounds each of its processes, where its entry has that; else give the machine or container more. Until then it ends the same way.", f.server), false
	case slices.Contains(crashes, e.Signal):
		where := "It said nothing on stderr."
		if len(e.Stderr) > 0 {
			where = "The end of its stderr is in details."
		}
		return fmt.Sprintf("The program of server %q crashed by itself. %s It is started anew with the next call; if the same call ends it again, look for another version of the server.", f.server, where), true
	case e.Signal != "":
		return "Something outside ended the process (the system does so when memory runs out); it is started anew with the next call.", true
	case e.Code == 127:
		return "A shell or launcher did not find the command that it should run: install it, or give its full path.", false
	case e.Code == 126:
		return "A shell or launcher found the command but may not execute it: make it executable.", false
	}
	switch {
	case f.ev.Starting && onlyNoise(e.Stderr): // some servers that do speak it write more than that
		return fmt.Sprintf("What the command of server %q writes to stdout is not MCP: it does not seem to be an MCP server that speaks over stdio. Check the command and its arguments; some servers want one that says so.", f.server), true
	case len(e.Stderr) > 0:
		return "The end of its stderr is in details. If it happens again, run the command by hand and check its arguments and environment.", true
	}
	return "It said nothing on stderr. Run the command by hand and check its arguments and environment.", true
}

// onlyNoise reports whether a log has nothing but lines of stdout that are not MCP.
func onlyNoise(log []string) bool {
	other := func(line string) bool { return !strings.HasPrefix(line, messages.NotJSONRPC) }
	return len(log) > 0 && !slices.ContainsFunc(log, other)
}

func httpStatus(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("HTTP %d %s", status, text)
	}
	return fmt.Sprintf("HTTP %d", status)
}

func spawnCause(err error) string {
	var execErr *exec.Error
	var path *fs.PathError
	switch {
	case errors.Is(err, messages.ErrNotBounded):
		return err.Error()
	case isExhausted(err):
		return "the system refuses another process or descriptor: " + err.Error()
	case errors.As(err, &execErr):
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("command %q was not found", execErr.Name)
		}
		return fmt.Sprintf("command %q cannot be run: %v", execErr.Name, execErr.Err)
	case errors.As(err, &path):
		what := "command"
		switch missing := errors.Is(err, fs.ErrNotExist); {
		case path.Op == "chdir" && missing: // the cwd of the entry
			return fmt.Sprintf("working directory %q does not exist", path.Path)
		case path.Op == "chdir":
			what = "working directory"
		case missing:
			return fmt.Sprintf("command %q does not exist (or, if it is a script, its interpreter does not)", path.Path)
		}
		return fmt.Sprintf("%s %q cannot be used: %v", what, path.Path, path.Err)
	}
	return "the command could not be started: " + err.Error()
}

// overCause is why a conversation is over with a process that lives.
func (f finding) overCause() string {
	switch {
	case errors.Is(f.ev.Err, syscall.EPIPE):
		return "the server closed its input but did not exit"
	case f.ev.Err != nil:
		return "the server did not exit, but cannot be spoken with"
	}
	return "the server closed its output but did not exit"
}

func exitCause(e *messages.Exit) string {
	switch {
	case e.OverLimit:
		return "the kernel killed the process because it had used the memory of its limits.memoryMB up (SIGKILL)"
	case e.OutOfMemory:
		return "the kernel killed the process because memory ran out (SIGKILL)"
	case e.Signal == "SIGXCPU":
		return "the process used up its processor time (SIGXCPU)"
	case e.Signal != "":
		return "the process was killed by " + e.Signal
	case e.Code == 0:
		return "the process exited although it was not asked to (code 0)"
	}
	return fmt.Sprintf("the process exited with code %d", e.Code)
}

func withDetail(cause, detail string) string {
	if detail == "" {
		return cause
	}
	return cause + ": " + detail
}

// details returns the end of stderr, and of a text of several lines where the
// process has not exited.
func (f finding) details() []string {
	if f.ev.Exit != nil && len(f.ev.Exit.Stderr) > 0 {
		return LogEnd(f.ev.Exit.Stderr)
	}
	lines := f.ev.Log
	if all := nonEmptyLines(f.ev.Text); len(all) > 1 {
		lines = slices.Concat(lines, all)
	}
	return LogEnd(lines)
}

// LogEnd is what an error shows of what a child wrote to stderr: at most the last 5
// lines of at most 300 bytes, without terminal escapes; nil where it said nothing.
func LogEnd(log []string) []string {
	lines := nonEmptyLines(strings.Join(log, "\n"))
	lines = lines[max(0, len(lines)-maxDetailLines):]
	for i, line := range lines {
		lines[i] = oneLine(line)
	}
	return lines
}
