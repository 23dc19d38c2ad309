package messages

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Transport says how a child is reached.
type Transport string

// The transports of a child.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
)

// RemoteInFlight is how many requests one connection has with a server at a URL at once,
// whatever its entry says.
const RemoteInFlight = 256

// LifecycleMode says what happens to a connection that is idle.
type LifecycleMode string

// The lifecycle modes of a server.
const (
	// LifecycleDefault follows the pool's idle timeout.
	LifecycleDefault LifecycleMode = ""
	// LifecycleKeepAlive is exempt from the idle timeout and evicted only
	// when nothing else can be.
	LifecycleKeepAlive LifecycleMode = "keep-alive"
	// LifecycleEphemeral is ended as soon as it is idle.
	LifecycleEphemeral LifecycleMode = "ephemeral"
)

// RetryPolicy says when a call that was lost in a crash is sent once more.
type RetryPolicy string

// The retry policies of a server.
const (
	// RetrySafe repeats where nothing was written yet or the tool is
	// annotated read-only or idempotent.
	RetrySafe   RetryPolicy = "safe"
	RetryAlways RetryPolicy = "always"
	RetryNever  RetryPolicy = "never"
)

// Scope says whom an instance of a server serves.
type Scope string

// The scopes of a server.
const (
	// ScopeShared has every instance serve all clients.
	ScopeShared Scope = ""
	// ScopeSession has an instance for each client session; MaxInstances then
	// counts for each of them.
	ScopeSession Scope = "session"
)

// Limits bound the processes of a server; 0: nothing does.
type Limits struct {
	MemoryMB   int // of all together where the host has a control group for them, else of the data of each
	Processes  int // and threads, of all together
	CPUSeconds int // of the life of each
}

// ErrNotBounded is among the causes of why a server was not started: nobody would keep
// its limits here.
var ErrNotBounded = errors.New("the limits cannot be kept")

// ServerSpec is one configured child server, with every variable resolved and
// every default filled in. It is never changed after it was made.
type ServerSpec struct {
	Name      string
	Transport Transport

	// Stdio.
	Command string
	Args    []string
	// Env is the child's whole environment, "KEY=value", already reduced to
	// the safe set plus the entry's own.
	Env []string
	Cwd string // empty: the host's

	// Remote.
	URL     string
	Headers map[string]string
	OAuth   *OAuth // nil: nothing was configured; what is needed is found out
	TLS     *TLS   // nil: what the system has

	Timeout        time.Duration // one request; progress starts it anew
	MaxTimeout     time.Duration // one request, whatever progress or the call says
	StartupTimeout time.Duration // spawn to the end of the handshake
	StopGrace      time.Duration // whole termination ladder; 0: the default ladder

	Limits       Limits
	Lifecycle    LifecycleMode
	IdleTimeout  time.Duration // 0: the pool's (for keep-alive: never)
	MaxInstances int           // at least 1
	MaxInFlight  int           // calls that one instance is given at once; 0: the default
	Retry        RetryPolicy
	HealthEvery  time.Duration // between two pings while it is idle and kept alive; 0: none
	Scope        Scope

	Description string
	Tags        []string
	Disabled    bool
	// Unscrubbed says that what the server answers goes to its caller with the
	// secrets that are in it.
	Unscrubbed bool

	// Asks is what the server may ask clients for.
	Asks ClientCan

	// Filled are the host's variables that ${NAME} in the entry named, with
	// what they hold: many of them are secrets. Those of ${secret:NAME} have
	// that prefix. It is also there where Err is.
	Filled map[string]string

	// Source is "file:line" of the entry, for messages.
	Source string
	// Guest says that Source is a client's file, which is read for this run and which
	// no command of ours changes.
	Guest bool
	// Provisioned is set where metamcp installed the server; nil: somebody
	// configured it.
	Provisioned *Provisioned
	// Hash covers all that a running process depends on (command, arguments,
	// environment, URL, headers): where it changes, the child is restarted.
	Hash string
	// Err is set where the entry is broken; nothing else but Name and Source
	// is then to be relied on, and the server refuses every call with it.
	Err *Error
}

// OAuth is what a user configured for a remote server that asks for OAuth. The
// zero value of each member leaves it to be found out.
type OAuth struct {
	// ClientID and what follows are those of a client that was registered by
	// hand. PrivateKey is a PEM that signs what authenticates the client
	// (private_key_jwt); it and ClientSecret exclude each other.
	ClientID, ClientSecret, PrivateKey string
	// MetadataURL is where a client id metadata document of the user's own is.
	MetadataURL string
	// Issuer is the authorization server; another one is refused.
	Issuer string
	Scopes []string // asked for at a login, in the place of those that the server names
	// RedirectPort is the port of the loopback at which a login's answer is
	// expected; 0: a free one.
	RedirectPort int
	// ClientCredentials says that the client acts for itself: nobody logs in.
	ClientCredentials bool
}

// TurnOn says how a person turns a disabled server on, to follow upon such words as
// "it can be turned on".
func (s *ServerSpec) TurnOn() string {
	if s.Guest {
		return "in the client's own file, " + s.Source
	}
	return "with `metamcp enable " + ShellWord(s.Name) + "`"
}

// HasAuthorization reports whether the configuration itself says how requests
// to a remote server are authorized.
func (s *ServerSpec) HasAuthorization() bool {
	for name := range s.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// TLS are files, by their full paths, that a connection to a remote server needs
// beside what the system has; "": none.
type TLS struct {
	CA        string // certificates of authorities, PEM
	Cert, Key string // with which we show who we are, PEM; both or none
}

// Provisioned is what is known of a server that metamcp installed.
type Provisioned struct {
	Package string // kind, name and version, like "npm:server-everything@1.2.3"
	// Dir holds its files, and Tree is the hash that they must have; both are ""
	// where it has none here.
	Dir, Tree string
}

// packageRunners are commands that run a program out of a package, which they
// download where it is not there yet. Of some only certain subcommands do.
var packageRunners = map[string][]string{
	"npx": nil, "pnpx": nil, "bunx": nil, "uvx": nil,
	"npm": {"exec", "x"}, "pnpm": {"dlx", "exec"}, "yarn": {"dlx"}, "bun": {"x"},
	"uv": {"run", "tool"}, "pipx": {"run"}, "deno": {"run"}, "docker": {"run"}, "podman": {"run"},
}

// RunsPackage reports whether the server's command is a package runner: its
// first start may take as long as a download, and to end it in the middle of
// that may leave half a package behind.
func (s *ServerSpec) RunsPackage() bool {
	command := strings.ToLower(s.Command[strings.LastIndexAny(s.Command, `/\`)+1:])
	for _, suffix := range []string{".cmd", ".exe", ".ps1", ".bat"} {
		command = strings.TrimSuffix(command, suffix)
	}
	subcommands, ok := packageRunners[command]
	return ok && (subcommands == nil || len(s.Args) > 0 && slices.Contains(subcommands, s.Args[0]))
}

// Exit is how a process ended.
type Exit struct {
	Code   int    // exit status; -1 when a signal ended it
	Signal string // name of that signal, "" otherwise
	// Requested says that we asked for it; such an exit is no failure.
	Requested bool
	// Lives says that no exit was seen: the conversation is over, the process is not,
	// and Code says nothing.
	Lives bool
	// OutOfMemory says that the kernel ended it, most likely, since memory ran out;
	// OverLimit, that the memory was that of its limits, for certain.
	OutOfMemory, OverLimit bool
	// Refused is how many processes and threads its limits did not let it start.
	Refused uint64
	// Stderr is the end of what it said, oldest line first, bounded. What stood on its
	// stdout and is not MCP is in it too, each line behind [NotJSONRPC].
	Stderr []string
}

// NotJSONRPC begins a line of a server's log that it wrote to stdout, where only MCP
// belongs.
const NotJSONRPC = "not JSON-RPC on stdout: "

// State is a state of the connection machine.
type State uint8

// The five states of a connection.
const (
	StateIdle State = iota
	StateConnecting
	StateActive
	StateFailed
	StateClosed
)

// Signal is what the termination ladder sends to a whole process tree.
type Signal uint8

// The signals of the ladder.
const (
	SignalTerminate Signal = iota
	SignalKill
)
