package config

import (
	"fmt"
	"strings"
	"time"
)

// KeyType says how the value of a [Key] is written.
type KeyType string

// The types of a key.
const (
	TypeInt    KeyType = "integer"
	TypeMillis KeyType = "milliseconds" // a whole number in files; flags and variables take 5m, 30s, … as well
	TypeBool   KeyType = "boolean"
	TypeString KeyType = "string"
	TypeEnum   KeyType = "enum"
	TypeURL    KeyType = "url"
	TypePath   KeyType = "path"  // ~ is the home folder, a relative one starts at the working folder
	TypeList   KeyType = "list"  // strings; flags and variables take them with commas between, or as a JSON array
	TypeRules  KeyType = "rules" // a JSON array of tool rules
	TypeTrace  KeyType = "trace" // a boolean, "stderr" or a path
)

// Key is one setting of ours: where it is written, what it may be and what it
// does. The table of them is the one source of flags, variables, file keys,
// schema and documentation.
type Key struct {
	Path    string   // in the file, under "metamcp"
	Flag    string   // without its dashes
	Aliases []string // further flags that mean the same
	Env     string
	Type    KeyType
	Default string // in the form that a flag takes; "" where it is empty or computed
	// Min and Max bound integers and milliseconds, both inclusive.
	Min, Max int64
	Enum     []string
	// Restart says that a change takes effect only in a new host.
	Restart bool
	// Guards says that the default lets more happen than what somebody may have
	// written: a value that cannot be used fails its file then, and is not ignored.
	Guards bool
	Doc    string

	ref func(*Settings) any
	// check says what is wrong with a text, or with a member of a list, that the
	// type alone would take; nil: nothing can be.
	check func(text string) error
}

const (
	day        = 24 * 60 * 60 * 1000 // milliseconds
	week       = 7 * day
	maxPlaces  = 100_000
	maxWaiters = 1_000_000
)

// keyTable is ordered as people should read it.
var keyTable = []Key{
	{Path: "pool.poolSize", Flag: "pool-size", Aliases: []string{"max-connections"}, Type: TypeInt, Default: "20", Min: 1, Max: maxPlaces,
		Doc: "Live connections to children at most.", ref: func(s *Settings) any { return &s.Pool.PoolSize }},
	{Path: "pool.resPoolSize", Flag: "reserve-size", Type: TypeInt, Default: "0", Min: 0, Max: maxPlaces,
		Doc: "Reserve places above the pool; 0 turns the reserve off.", ref: func(s *Settings) any { return &s.Pool.ResPoolSize }},
	{Path: "pool.resPoolTimeout", Flag: "reserve-timeout", Type: TypeMillis, Default: "5000", Min: 0, Max: day,
		Doc: "How long the oldest waiter waits before the reserve opens.", ref: func(s *Settings) any { return &s.Pool.ResPoolTimeout }},
	{Path: "pool.minPoolSize", Flag: "min-pool-size", Type: TypeInt, Default: "0", Min: 0, Max: maxPlaces,
		Doc: "The idle sweep never goes below this many connections; at most poolSize.", ref: func(s *Settings) any { return &s.Pool.MinPoolSize }},
	{Path: "pool.idleTimeoutMs", Flag: "idle-timeout", Type: TypeMillis, Default: "300000", Min: 0, Max: week,
		Doc: "A connection that is idle for longer is closed; 0: never.", ref: func(s *Settings) any { return &s.Pool.IdleTimeout }},
	{Path: "pool.acquireTimeoutMs", Flag: "acquire-timeout", Type: TypeMillis, Default: "30000", Min: 1, Max: day,
		Doc: "How long a call waits for a place in the pool.", ref: func(s *Settings) any { return &s.Pool.AcquireTimeout }},
	{Path: "pool.maxWaiters", Flag: "max-waiters", Type: TypeInt, Default: "1024", Min: 1, Max: maxWaiters,
		Doc: "How many may wait for a place, each client counted once for each server that it waits for; more are refused at once.", ref: func(s *Settings) any { return &s.Pool.MaxWaiters }},
	{Path: "pool.failureThreshold", Flag: "failure-threshold", Type: TypeInt, Default: "5", Min: 1, Max: 1_000_000,
		Doc: "Failures in a row that open a server's circuit breaker.", ref: func(s *Settings) any { return &s.Pool.FailureThreshold }},
	{Path: "pool.cooldownMs", Flag: "cooldown", Type: TypeMillis, Default: "30000", Min: 1, Max: day,
		Doc: "How long an open breaker refuses calls before it lets one probe through.", ref: func(s *Settings) any { return &s.Pool.Cooldown }},

	{Path: "pool.maxStarts", Flag: "max-starts", Type: TypeInt, Default: "0", Min: 0, Max: 1000, Restart: true,
		Doc: "Children that are started at the same moment at most; 0: twice the number of cores, at least 4.", ref: func(s *Settings) any { return &s.Pool.MaxStarts }},
	{Path: "pool.sessionCalls", Flag: "session-calls", Type: TypeInt, Default: "4096", Min: 1, Max: maxWaiters,
		Doc: "Calls that one client may have in flight; more are refused at once.", ref: func(s *Settings) any { return &s.Pool.SessionCalls }},
	{Path: "pool.memoryPercent", Flag: "memory-percent", Type: TypeInt, Default: "90", Min: 0, Max: 100, Restart: true,
		Doc: "Share of the control group's memory from which idle children are ended, as they are where something waits for memory a fifth of the time; 0: never. Linux.", ref: func(s *Settings) any { return &s.Pool.MemoryPercent }},
	{Path: "pool.flapRestarts", Flag: "flap-restarts", Type: TypeInt, Default: "20", Min: 0, Max: 100_000,
		Doc: "Unexpected ends of a server within flapWindowMs that put it into quarantine; 0: no number does.", ref: func(s *Settings) any { return &s.Pool.FlapRestarts }},
	{Path: "pool.flapWindowMs", Flag: "flap-window", Type: TypeMillis, Default: "600000", Min: 1, Max: week,
		Doc: "The time in which they count.", ref: func(s *Settings) any { return &s.Pool.FlapWindow }},

	{Path: "search.ranking", Flag: "ranking", Type: TypeEnum, Enum: []string{"hybrid", "classic", "anygpt"}, Default: "hybrid",
		Doc: "How mcp_discover ranks tools: words and meaning together, MetaMCP's points, or AnyGPT's.", ref: func(s *Settings) any { return &s.Search.Ranking }},
	{Path: "search.embedder", Flag: "embedder", Type: TypeEnum, Enum: []string{"auto", "voyage", "openai", "local", "builtin", "none"}, Default: "auto",
		Doc: "Who turns text into vectors; auto takes the first that is configured, none ranks by words alone.", ref: func(s *Settings) any { return &s.Search.Embedder }},
	{Path: "search.embedderUrl", Flag: "embedder-url", Type: TypeURL,
		Doc: "Base URL of an OpenAI-compatible embedder, without /v1/embeddings; with embedder voyage: that of its API.", ref: func(s *Settings) any { return &s.Search.EmbedderURL }},
	{Path: "search.embedderModel", Flag: "embedder-model", Type: TypeString,
		Doc: "Model of the embedder; for local an installed one or the path of a .gguf file; empty: the embedder's own default.", ref: func(s *Settings) any { return &s.Search.Model }},
	{Path: "search.embedderKeyEnv", Flag: "embedder-key-env", Type: TypeString, Default: "OPENAI_API_KEY",
		Doc: "Name of the environment variable that holds the key of the OpenAI-compatible embedder.", ref: func(s *Settings) any { return &s.Search.KeyVariable }},
	{Path: "search.limit", Flag: "search-limit", Type: TypeInt, Default: "20", Min: 1, Max: MaxSearchLimit,
		Doc: "Matches in one answer of mcp_discover where the caller names no limit.", ref: func(s *Settings) any { return &s.Search.Limit }},
	{Path: "search.budgetTokens", Flag: "budget-tokens", Type: TypeInt, Default: "4000", Min: 200, Max: 1_000_000,
		Doc: "Tokens that one answer of ours may cost.", ref: func(s *Settings) any { return &s.Search.BudgetTokens }},

	{Path: "discoverTimeoutMs", Flag: "discover-timeout", Type: TypeMillis, Default: "10000", Min: 1, Max: day,
		Doc: "How long mcp_discover waits for servers that nothing is known of; at most 2 s of it where other servers have answers already. In the shell, --server adds its startupTimeoutMs.", ref: func(s *Settings) any { return &s.DiscoverTimeout }},
	{Path: "drainTimeoutMs", Flag: "drain-timeout", Type: TypeMillis, Default: "5000", Min: 0, Max: day,
		Doc: "How long requests in flight may take to end when the host stops.", ref: func(s *Settings) any { return &s.DrainTimeout }},
	{Path: "catalog.ttlMs", Flag: "catalog-ttl", Type: TypeMillis, Default: "3600000", Min: 0, Max: 4 * week,
		Doc: "Age at which the next use of a server's tool list refreshes it.", ref: func(s *Settings) any { return &s.Catalog.TTL }},
	{Path: "catalog.cleanupMs", Flag: "catalog-cleanup", Type: TypeMillis, Default: "300000", Min: 100, Max: week,
		Doc: "How often tools of servers that left the configuration are removed. What other configurations keep in the same stateDir goes when nobody has used it for 30 days.", ref: func(s *Settings) any { return &s.Catalog.Cleanup }},
	{Path: "cache.enabled", Flag: "cache", Type: TypeBool, Default: "true", Restart: true,
		Doc: "Keep each server's tool list on disk, so that discovery works before any child runs.", ref: func(s *Settings) any { return &s.CacheEnabled }},
	{Path: "toolRules", Flag: "tool-rules", Type: TypeRules, Guards: true,
		Doc: "Ordered rules {pattern, server?, enabled?, tags?} of which tools exist; any enabled: true makes the default disabled.", ref: func(s *Settings) any { return &s.ToolRules }},
	{Path: "registry.url", Flag: "registry-url", Type: TypeURL, Default: "https://registry.modelcontextprotocol.io", Guards: true,
		Doc: "Base URL of the MCP registry, without /v0.1.", ref: func(s *Settings) any { return &s.RegistryURL }},
	{Path: "trust.file", Flag: "trust-file", Type: TypePath, Guards: true,
		Doc: "Whom to trust with being installed; empty: trusted-servers.json in stateDir.", ref: func(s *Settings) any { return &s.TrustFile }},
	{Path: "trust.autoProvision", Flag: "auto-provision", Type: TypeBool, Default: "true", Guards: true,
		Doc: "Clients may have trusted servers installed with mcp_provision; false: servers are only recommended.", ref: func(s *Settings) any { return &s.AutoProvision }},
	{Path: "trust.autoProvisionClients", Flag: "auto-provision-clients", Type: TypeList, Guards: true,
		Doc: "Patterns of the names of clients whose sessions may do so, as clients name themselves; empty: all.", ref: func(s *Settings) any { return &s.ProvisionClients }, check: checkPattern},
	{Path: "trust.pins", Flag: "trust-pins", Type: TypeEnum, Enum: []string{"off", "warn", "hold"}, Default: "warn", Guards: true,
		Doc: "Tools that say something else than when their server was first listed: off looks at nothing, warn tells, hold closes them until metamcp approve.", ref: func(s *Settings) any { return &s.Pins }},

	{Path: "execute.timeoutMs", Flag: "execute-timeout", Type: TypeMillis, Default: "120000", Min: 1, Max: day,
		Doc: "Wall time of one mcp_execute at most.", ref: func(s *Settings) any { return &s.Execute.Timeout }},
	{Path: "execute.memoryMb", Flag: "execute-memory", Type: TypeInt, Default: "64", Min: 8, Max: 4096,
		Doc: "Heap of the sandbox in MiB.", ref: func(s *Settings) any { return &s.Execute.MemoryMB }},
	{Path: "execute.maxCalls", Flag: "execute-max-calls", Type: TypeInt, Default: "1000", Min: 1, Max: 1_000_000,
		Doc: "Child calls that one mcp_execute may make; searches and kept results that it reads count too.", ref: func(s *Settings) any { return &s.Execute.MaxCalls }},
	{Path: "execute.codeKb", Flag: "execute-code", Type: TypeInt, Default: "50", Min: 1, Max: 10_240,
		Doc: "Size of the code in KB of 1000 bytes.", ref: func(s *Settings) any { return &s.Execute.CodeKB }},
	{Path: "execute.outputMb", Flag: "execute-output", Type: TypeInt, Default: "10", Min: 1, Max: 128,
		Doc: "Size of value and console output together in MB.", ref: func(s *Settings) any { return &s.Execute.OutputMB }},
	{Path: "execute.maxConcurrent", Flag: "execute-concurrent", Type: TypeInt, Default: "8", Min: 1, Max: 256,
		Doc: "Scripts of mcp_execute that run at once, each in a process of its own; others wait for their turn.", ref: func(s *Settings) any { return &s.Execute.MaxConcurrent }},

	{Path: "http.address", Flag: "http-address", Type: TypeString, Restart: true,
		Doc: "Address at which metamcp host serves clients over HTTP too, such as :8090; its flag --http wins. A metamcp that a client starts serves nobody there.", ref: func(s *Settings) any { return &s.HTTP.Addr }},
	{Path: "http.allowedHosts", Flag: "http-allowed-hosts", Type: TypeList, Restart: true,
		Doc: "Names, beside addresses and localhost, by which clients may call a host over HTTP, such as that of a proxy before it.", ref: func(s *Settings) any { return &s.HTTP.Hosts }, check: checkHost},
	{Path: "http.allowedOrigins", Flag: "http-allowed-origins", Type: TypeList, Restart: true,
		Doc: "Origins of web pages that may talk to it, such as https://example.com; pages of all others are refused.", ref: func(s *Settings) any { return &s.HTTP.Origins }, check: checkOrigin},
	{Path: "http.publicUrl", Flag: "http-public-url", Type: TypeURL, Restart: true,
		Doc: "The https URL by which browsers on other machines reach it, without /mcp; below it are the pages that ask users for secrets.", ref: func(s *Settings) any { return &s.HTTP.PublicURL }},
	{Path: "http.tlsCert", Flag: "http-tls-cert", Type: TypePath, Restart: true, Guards: true,
		Doc: "PEM file with its certificate and those that it needs; with http.tlsKey it speaks HTTPS.", ref: func(s *Settings) any { return &s.HTTP.TLSCert }},
	{Path: "http.tlsKey", Flag: "http-tls-key", Type: TypePath, Restart: true, Guards: true,
		Doc: "PEM file with the key of that certificate.", ref: func(s *Settings) any { return &s.HTTP.TLSKey }},
	{Path: "http.clientCa", Flag: "http-client-ca", Type: TypePath, Restart: true, Guards: true,
		Doc: "PEM file with the authorities whose certificates its clients must have.", ref: func(s *Settings) any { return &s.HTTP.ClientCA }},
	{Path: "http.maxBodyKb", Flag: "http-max-body", Type: TypeInt, Default: "16384", Min: 1, Max: 1 << 20, Restart: true,
		Doc: "Size of one message to it in KiB at most.", ref: func(s *Settings) any { return &s.HTTP.MaxBodyKB }},
	{Path: "http.maxSessions", Flag: "http-max-sessions", Type: TypeInt, Default: "2000", Min: 1, Max: 1_000_000, Restart: true,
		Doc: "Clients that it serves at once.", ref: func(s *Settings) any { return &s.HTTP.MaxSessions }},
	{Path: "http.maxSessionsPerClient", Flag: "http-max-sessions-each", Type: TypeInt, Default: "1000", Min: 1, Max: 1_000_000, Restart: true,
		Doc: "How many of them may have one token or certificate, or none.", ref: func(s *Settings) any { return &s.HTTP.MaxSessionsEach }},
	{Path: "http.maxRequestsPerSecond", Flag: "http-max-rate", Type: TypeInt, Default: "500", Min: 1, Max: 1_000_000, Restart: true,
		Doc: "Requests of one client a second, in the mean; up to twice as many come at once.", ref: func(s *Settings) any { return &s.HTTP.MaxRate }},
	{Path: "http.maxConcurrent", Flag: "http-concurrent", Type: TypeInt, Default: "256", Min: 1, Max: 100_000, Restart: true,
		Doc: "Requests of one client that may be open at once.", ref: func(s *Settings) any { return &s.HTTP.MaxConcurrent }},
	{Path: "http.idleTimeoutMs", Flag: "http-idle-timeout", Type: TypeMillis, Default: "1800000", Min: 1000, Max: week, Restart: true,
		Doc: "How long a session lives of which no request and no stream is open.", ref: func(s *Settings) any { return &s.HTTP.IdleTimeout }},
	{Path: "http.keepAliveMs", Flag: "http-keep-alive", Type: TypeMillis, Default: "15000", Min: 100, Max: day, Restart: true,
		Doc: "After how much silence a stream gets a comment, so that nobody between takes it for dead.", ref: func(s *Settings) any { return &s.HTTP.KeepAlive }},

	{Path: "expose", Flag: "expose", Type: TypeList, Enum: exposable, Restart: true,
		Doc: "What of the servers clients list themselves, beside the four tools: tools, prompts, resources.", ref: func(s *Settings) any { return &s.Expose }},
	{Path: "exposePrefix", Flag: "expose-prefix", Type: TypeEnum, Enum: []string{"server", "none"}, Default: "server", Restart: true,
		Doc: "How exposed tools and prompts are called: SERVER__NAME, or as their server calls them where no other has the name.", ref: func(s *Settings) any { return &s.ExposePrefix }},
	{Path: "exposeOnly", Flag: "expose-only", Type: TypeBool, Default: "false", Restart: true,
		Doc: "Leave the four tools out of tools/list; it needs expose with tools.", ref: func(s *Settings) any { return &s.ExposeOnly }},
	{Path: "attach", Flag: "attach", Type: TypeEnum, Enum: []string{"auto", "never", "require"}, Default: "auto", Restart: true,
		Doc: "Use the host that runs for this configuration (metamcp host): auto where there is one, require or not at all, never.", ref: func(s *Settings) any { return &s.Attach }},
	{Path: "audit.file", Flag: "audit-file", Type: TypePath, Restart: true,
		Doc: "The audit log; empty: audit.jsonl in stateDir, \"off\": none.", ref: func(s *Settings) any { return &s.Audit.File }},
	{Path: "audit.plainArgs", Flag: "audit-plain-args", Type: TypeBool, Default: "false", Restart: true,
		Doc: "Write arguments into the audit log as they are; they are hashed otherwise.", ref: func(s *Settings) any { return &s.Audit.PlainArgs }},
	{Path: "telemetry.metricsAddr", Flag: "metrics", Type: TypeString, Restart: true,
		Doc: "Serve /metrics for Prometheus, /healthz and /readyz on this PORT of the loopback or HOST:PORT; empty: not at all.", ref: func(s *Settings) any { return &s.Telemetry.MetricsAddr }, check: checkListen},
	{Path: "telemetry.toolLimit", Flag: "telemetry-tools", Type: TypeInt, Default: "200", Min: 0, Max: 10_000, Restart: true,
		Doc: "Tools that metrics tell apart by name; further ones count as one, and 0 names none.", ref: func(s *Settings) any { return &s.Telemetry.ToolLimit }},
	{Path: "scrub", Flag: "scrub", Type: TypeBool, Default: "true",
		Doc: "Remove secrets from results, errors, logs, traces and the audit log.", ref: func(s *Settings) any { return &s.Scrub }},
	{Path: "skills", Flag: "skills", Type: TypeBool, Default: "true",
		Doc: "Find skills (SKILL.md files) with mcp_discover.", ref: func(s *Settings) any { return &s.Skills }},
	{Path: "stateDir", Flag: "state-dir", Type: TypePath, Default: "~/.metamcp", Restart: true, Guards: true,
		Doc: "Folder of catalog, caches, logs and trust.", ref: func(s *Settings) any { return &s.StateDir }},
	{Path: "trace", Flag: "trace", Type: TypeTrace, Restart: true,
		Doc: "Trace every message between actors, to stderr (the flag alone, true or \"stderr\") or to a JSONL file.", ref: func(s *Settings) any { return &s.Trace }},
	{Path: "traceFilter", Flag: "trace-filter", Type: TypeList, Restart: true,
		Doc: "Trace only what fits: server=NAME, actor=PATTERN, type=NAME, request=NUMBER, errors.", ref: func(s *Settings) any { return &s.TraceFilter }, check: checkTraceFilter},
	{Path: "tracePayloads", Flag: "trace-payloads", Type: TypeBool, Default: "false", Restart: true,
		Doc: "Show arguments and results in the trace, without known secrets; it holds only their sizes otherwise.", ref: func(s *Settings) any { return &s.TracePayloads }},
}

// keyIndex finds a key by its path; keyGroups holds the names below each
// prefix, "" being the top.
var keyIndex, keyGroups = func() (map[string]*Key, map[string][]string) {
	index, groups := make(map[string]*Key, len(keyTable)), map[string][]string{}
	for i := range keyTable {
		k := &keyTable[i]
		k.Env = envName(k.Path)
		index[k.Path] = k
		group, leaf, nested := strings.Cut(k.Path, ".")
		if !nested {
			groups[""] = append(groups[""], group)
			continue
		}
		if groups[group] == nil {
			groups[""] = append(groups[""], group)
		}
		groups[group] = append(groups[group], leaf)
	}
	return index, groups
}()

// envName turns "pool.idleTimeoutMs" into "METAMCP_POOL_IDLE_TIMEOUT_MS".
func envName(path string) string {
	var b strings.Builder
	b.WriteString("METAMCP_")
	for _, r := range path {
		switch {
		case r == '.':
			b.WriteByte('_')
		case r >= 'A' && r <= 'Z':
			b.WriteByte('_')
			b.WriteRune(r)
		default:
			b.WriteRune(r - 'a' + 'A')
		}
	}
	return b.String()
}

// Keys returns the table of all settings, in reading order. The slice is the
// caller's; the slices inside are shared and read-only.
func Keys() []Key { return append([]Key(nil), keyTable...) }

// Range returns what the key takes, in words.
func (k *Key) Range() string {
	switch k.Type {
	case TypeInt:
		return fmt.Sprintf("a whole number from %d to %d", k.Min, k.Max)
	case TypeMillis:
		return fmt.Sprintf("milliseconds from %d to %d", k.Min, k.Max)
	case TypeBool:
		return "true or false"
	case TypeEnum:
		return "one of " + strings.Join(k.Enum, ", ")
	case TypeURL:
		return "an absolute http or https URL"
	case TypePath:
		return "a path"
	case TypeList:
		if k.Enum != nil {
			return "a list of " + strings.Join(k.Enum, ", ")
		}
		return "a list of strings"
	case TypeRules:
		return "an array of tool rules"
	case TypeTrace:
		return `true, false, "stderr" or a path`
	default:
		return "a string"
	}
}

// DefaultSettings returns what a host uses that was told nothing; its paths
// are not resolved yet.
func DefaultSettings() Settings {
	var s Settings
	for i := range keyTable {
		if k := &keyTable[i]; k.Default != "" {
			// The defaults are part of the table and TestDefaults parses them all.
			_ = k.Set(&s, k.Default)
		}
	}
	return s
}

// sameValue says whether a and b agree in this key.
func (k *Key) sameValue(a, b *Settings) bool {
	switch x := k.ref(a).(type) {
	case *int:
		return *x == *k.ref(b).(*int)
	case *bool:
		return *x == *k.ref(b).(*bool)
	case *string:
		return *x == *k.ref(b).(*string)
	case *time.Duration:
		return *x == *k.ref(b).(*time.Duration)
	case *[]string:
		return equalStrings(*x, *k.ref(b).(*[]string))
	case *[]ToolRule:
		return equalRules(*x, *k.ref(b).(*[]ToolRule))
	}
	return false
}

// keep writes what from has for this key into s. They share what a slice refers to.
func (k *Key) keep(s, from *Settings) {
	switch x := k.ref(s).(type) {
	case *int:
		*x = *k.ref(from).(*int)
	case *bool:
		*x = *k.ref(from).(*bool)
	case *string:
		*x = *k.ref(from).(*string)
	case *time.Duration:
		*x = *k.ref(from).(*time.Duration)
	case *[]string:
		*x = *k.ref(from).(*[]string)
	case *[]ToolRule:
		*x = *k.ref(from).(*[]ToolRule)
	}
}

// keepRestarts writes what from has for the keys that need a restart into s.
func (s *Settings) keepRestarts(from *Settings) {
	for i := range keyTable {
		if k := &keyTable[i]; k.Restart {
			k.keep(s, from)
		}
	}
}

// MaxSearchLimit is how many matches or tools one answer of mcp_discover holds
// at most.
const MaxSearchLimit = 100
