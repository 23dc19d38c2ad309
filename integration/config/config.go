package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/messages"
)

// Config is everything that was configured. It is never changed after [Load]
// returned it, so any goroutine may read it; nobody may write to it.
type Config struct {
	// Servers are the entries in the order of the files, broken and disabled
	// ones included, and behind them those that metamcp installed itself
	// (package provisioned), which are shown by their Provisioned.
	Servers []*messages.ServerSpec
	// Settings are ours, with every default filled in. Those that need a restart are
	// still the ones of the configuration before, where there was one.
	Settings Settings
	// Warnings are oddities that change nothing that works: unknown keys,
	// duplicate names, trouble in a disabled entry.
	Warnings []Problem
	// Problems are things that do not work: each broken entry and each setting
	// that was refused and left as it was.
	Problems []Problem
	// Files are the absolute paths that were read, in order of precedence, the
	// strongest last. Empty when no file was found.
	Files []string
	// Chain is through which entries this process was started, as its environment says.
	Chain lineage.Chain

	byName map[string]*messages.ServerSpec
	// leftOut says what is wrong with entries of which no server can be made, by name.
	leftOut map[string]*messages.Error
	// places are where the settings and tool rules of the files stand, and rulesFrom is the
	// flag or variable that set the rules; "": a file did.
	places    map[string]Problem
	rulesFrom string
	// written are the settings that a restart would bring; nil: those are in force.
	written *Settings
	// candidates are the files that would have been read, had they been there.
	candidates []string
	// fixed holds the content of files that can be read only once (pipes).
	fixed map[string][]byte
	// secrets are those of the store, secretFile is the store's file; "": none
	// is asked for.
	secrets        map[string]string
	secretUsers    map[string][]string
	secretFile     string
	missingSecrets map[string][]string // by server
	absentSecrets  map[string]bool     // that were asked for and are not in the store
	// ringFailed says that the keyring could not be used for a secret, and unread
	// that a file of the state folder could not be read.
	ringFailed, unread bool
	// content is the hash of all that was read.
	content [32]byte
	begun   uint64 // see begin
	// lock is the lock file of provisioned servers; "" where there is no state
	// folder to hold one.
	lock string
}

// Server returns the entry of that name, or nil.
func (c *Config) Server(name string) *messages.ServerSpec { return c.byName[name] }

// LeftOut says what is wrong with the entry of that name where no server can be made of
// it, since the name itself cannot be used. nil: there is no such entry. The error of
// every other broken entry is in its spec.
func (c *Config) LeftOut(name string) *messages.Error { return c.leftOut[name] }

// afterRestart returns the settings that a host would have that starts now.
func (c *Config) afterRestart() *Settings {
	if c.written != nil {
		return c.written
	}
	return &c.Settings
}

// OlderThan says that the load that made c began before that of other, in this
// process: c may lack what other has.
func (c *Config) OlderThan(other *Config) bool { return c.begun < other.begun }

// Problem is one thing that is wrong with the configuration, for people.
type Problem struct {
	File   string // absolute path; "" when no file is to blame
	Line   int    // from 1; 0 when there is no position
	Column int    // from 1, in characters
	Server string // "" when it belongs to no entry
	// Message says what is wrong. It never holds a value that could be secret where it
	// stands, but quotes names and words, and somebody may have written a secret in the
	// place of one: who shows it takes out what looks like one.
	Message string
	Hint    string // what to do about it; may be ""
}

// RuleAt is where the tool rule with this index stands: "file:line:column", or the flag or
// variable that gave it.
func (c *Config) RuleAt(i int) string {
	if c.rulesFrom != "" {
		return c.rulesFrom
	}
	return c.places[rulePath(i)].Position()
}

// Position returns "file:line:column" with what is known of it.
func (p Problem) Position() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// String returns the whole problem in one line.
func (p Problem) String() string {
	var b strings.Builder
	if pos := p.Position(); pos != "" {
		b.WriteString(pos + ": ")
	}
	if p.Server != "" {
		fmt.Fprintf(&b, "server %q: ", p.Server)
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Settings are the settings of the host itself, the top-level "metamcp" object
// of the file. [Keys] documents each of them.
type Settings struct {
	Pool            PoolSettings
	Search          SearchSettings
	DiscoverTimeout time.Duration
	DrainTimeout    time.Duration
	Catalog         CatalogSettings
	CacheEnabled    bool
	ToolRules       []ToolRule
	RegistryURL     string
	TrustFile       string // absolute path
	Pins            string // "off", "warn" or "hold"
	AutoProvision   bool
	// Attach is "auto", "never" or "require": whether a client's metamcp uses a
	// host that runs already.
	Attach string
	// ProvisionClients are patterns of client names; empty: all.
	ProvisionClients []string
	Execute          ExecuteSettings
	// Expose holds "tools", "prompts" and "resources", each at most once: what of
	// the servers clients list themselves.
	Expose       []string
	ExposePrefix string // "server" or "none"
	ExposeOnly   bool   // without the four tools; only with tools in Expose
	HTTP         HTTPSettings
	Audit        AuditSettings
	Telemetry    TelemetrySettings
	Scrub        bool
	Skills       bool // mcp_discover finds them
	// StateDir is an absolute path, or "" where no home folder is known and
	// nothing can be kept.
	StateDir string
	// Trace is "" for off, "stderr", or the absolute path of a JSONL file.
	Trace string
	// TraceFilter are the conditions of what is traced; empty: everything.
	TraceFilter   []string
	TracePayloads bool
}

// PoolSettings bound the pool and its breakers.
type PoolSettings struct {
	PoolSize         int
	ResPoolSize      int
	ResPoolTimeout   time.Duration
	MinPoolSize      int           // at most PoolSize
	IdleTimeout      time.Duration // 0: idle connections are never closed
	AcquireTimeout   time.Duration
	MaxWaiters       int
	FailureThreshold int
	Cooldown         time.Duration
	MaxStarts        int // 0: by the number of cores
	SessionCalls     int
	MemoryPercent    int // 0: memory is not looked at
	FlapRestarts     int // 0: nothing is put into quarantine
	FlapWindow       time.Duration
}

// SearchSettings shape mcp_discover's ranking and answers.
type SearchSettings struct {
	Ranking      string // "hybrid", "classic" or "anygpt"
	Embedder     string // "auto", "voyage", "openai", "local", "builtin" or "none"
	EmbedderURL  string // base URL of the openai embedder
	Model        string // model of the voyage, openai or local embedder; "": its own default
	KeyVariable  string // name of the environment variable that holds the openai embedder's key
	Limit        int
	BudgetTokens int
}

// CatalogSettings bound the age of what is known of the children.
type CatalogSettings struct {
	TTL     time.Duration
	Cleanup time.Duration
}

// ExecuteSettings bound one run of mcp_execute.
type ExecuteSettings struct {
	Timeout       time.Duration
	MemoryMB      int
	MaxCalls      int
	CodeKB        int
	OutputMB      int
	MaxConcurrent int // scripts of the host at once
}

// AuditSettings shape the audit log.
type AuditSettings struct {
	File      string // absolute path; "" where it is off
	PlainArgs bool   // arguments are written as they are, not hashed
}

// HTTPSettings shape the front over HTTP, where there is one.
type HTTPSettings struct {
	Addr                      string // of a shared host; "": none
	Hosts, Origins            []string
	TLSCert, TLSKey, ClientCA string // absolute paths; "": none
	PublicURL                 string // for browsers on other machines; "": there is none
	MaxBodyKB                 int
	MaxSessions               int
	MaxSessionsEach           int // of one principal
	MaxRate                   int // requests of one client a second
	MaxConcurrent             int // requests of one client
	IdleTimeout               time.Duration
	KeepAlive                 time.Duration
}

// TelemetrySettings shape what the host tells monitoring. What is exported by
// OpenTelemetry is up to its own environment variables.
type TelemetrySettings struct {
	MetricsAddr string // where /metrics, /healthz and /readyz are served; "": nowhere
	ToolLimit   int    // tools that metrics name; further ones are counted together
}

// ToolRule is one rule of who may see which tool. Its patterns are checked for
// being there, not for their syntax, which belongs to the index.
type ToolRule struct {
	Pattern []string // at least one
	Server  string   // "": every server
	Enabled *bool    // nil: decides nothing
	Tags    []string
}
