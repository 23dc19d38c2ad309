package messages

import "time"

// HostStatus is what a running host says of itself at one moment. It holds no
// secrets: errors in it are scrubbed.
type HostStatus struct {
	Name    string    `json:"name"` // of the host, unique among those that run
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	At      time.Time `json:"at"` // when this was taken
	Configs []string  `json:"configs"`
	// ConfigProblem is why the files as they are now are not in force, and those from
	// before are; "": they are, or will be in a moment.
	ConfigProblem string `json:"configProblem,omitempty"`
	// HTTP is the URL at which it serves clients over HTTP; "": nowhere.
	HTTP     string       `json:"http,omitempty"`
	Draining bool         `json:"draining,omitempty"`
	Pool     PoolStatus   `json:"pool"`
	Servers  []HostServer `json:"servers"` // by name
	Sessions int          `json:"sessions"`
	// Clients are those behind the sessions, the oldest first.
	Clients []ClientStatus `json:"clients,omitempty"`
	// Descriptors that this process has open, and may have; 0: nothing is known.
	Descriptors     int           `json:"descriptors,omitempty"`
	DescriptorLimit int           `json:"descriptorLimit,omitempty"`
	Calls           CallCounts    `json:"calls"`
	Sandbox         SandboxStatus `json:"sandbox"`
	// Provision is the provisioner's; zero where nobody asked for a server.
	Provision ProvisionStatus `json:"provision,omitzero"`
	Drops     DropCounts      `json:"drops"`
	// AuditProblem is why the audit log records nothing; "": it does, or is off.
	AuditProblem string `json:"auditProblem,omitempty"`
	// Usage is of the host's own process; nil as in [HostServer].
	Usage  *ProcessUsage `json:"usage,omitempty"`
	Actors []ActorStatus `json:"actors,omitempty"` // by id; only where asked for
}

// ClientStatus is one client of a host.
type ClientStatus struct {
	Name    string    `json:"name,omitempty"` // as it names itself in the handshake
	Version string    `json:"version,omitempty"`
	PID     int       `json:"pid,omitempty"` // of its metamcp; where it has none of its own, of the process that started the host; 0: it came over HTTP
	Since   time.Time `json:"since"`
}

// PoolStatus is the pool's books.
type PoolStatus struct {
	Size        int    `json:"size"`
	Reserve     int    `json:"reserve"`
	Used        int    `json:"used"`        // of Size
	ReserveUsed int    `json:"reserveUsed"` // of Reserve
	Idle        int    `json:"idle"`        // connections with nothing in flight
	Waiters     int    `json:"waiters"`
	MaxWaiters  int    `json:"maxWaiters"`
	Evictions   uint64 `json:"evictions"`
}

// CallCounts counts a host's calls since it started.
type CallCounts struct {
	InFlight int64  `json:"inFlight"`
	Total    uint64 `json:"total"`
	Failed   uint64 `json:"failed"` // ended with an error of ours
	// ToolErrors are those that the tool, or its server, answered with an error.
	ToolErrors uint64 `json:"toolErrors"`
	// Late are the answers and progress of children that nobody waited for any more,
	// or that were of no use, and Refused what the state of a connection did not allow.
	Late    uint64 `json:"late"`
	Refused uint64 `json:"refused"`
}

// DropCounts counts what found no room in a bounded queue and was dropped,
// since the host started.
type DropCounts struct {
	Trace uint64 `json:"trace"` // records, over all viewers of the trace
}

// HostServer is one server of a host.
type HostServer struct {
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	Disabled    bool       `json:"disabled,omitempty"`
	Provisioned string     `json:"provisioned,omitempty"` // the package that metamcp installed it from; "": it was configured
	State       string     `json:"state"`                 // IDLE, CONNECTING, ACTIVE, FAILED or CLOSED
	Breaker     string     `json:"breaker"`               // closed, open or half-open
	Failures    int        `json:"failures,omitempty"`    // counted ones in a row
	RetryAt     time.Time  `json:"retryAt,omitzero"`      // zero: with the next call
	Error       *Error     `json:"error,omitempty"`       // the last failure; nil where it works
	Known       bool       `json:"known"`                 // its tools have been listed
	Tools       int        `json:"tools"`
	Enabled     int        `json:"enabled"`
	Changed     int        `json:"changed,omitempty"`    // tools that are not as accepted
	Held        int        `json:"held,omitempty"`       // those of them that are closed for it
	Suspicious  int        `json:"suspicious,omitempty"` // tools with texts that read like orders to a model
	Instances   []Instance `json:"instances"`
	// Counts are since the server was configured.
	Counts ServerCounts `json:"counts"`
	// Calls are since the host started.
	Calls ServerCalls `json:"calls"`
	// Usage is of all its processes; nil where nobody asked, or the system does
	// not tell.
	Usage *ProcessUsage `json:"usage,omitempty"`
}

// ServerCalls are the calls of one server that have ended.
type ServerCalls struct {
	Total  uint64 `json:"total"`
	Failed uint64 `json:"failed"` // with an error of ours, the tool's or its server's
	// P50 and P99 are how long the last 256 of them took, in milliseconds.
	P50 float64 `json:"p50Ms"`
	P99 float64 `json:"p99Ms"`
}

// ProcessUsage is what processes take, together with those that they started.
type ProcessUsage struct {
	Processes int   `json:"processes"`
	Memory    int64 `json:"memoryBytes"` // resident; pages that are shared count for each
	CPU       int64 `json:"cpuMs"`       // of those that live, since each began
}

// ServerCounts counts what happened to one server.
type ServerCounts struct {
	Spawns     uint64 `json:"spawns"`     // processes started
	Exits      uint64 `json:"exits"`      // processes that ended, for whatever reason
	Retries    uint64 `json:"retries"`    // calls that were sent again after a loss
	Opened     uint64 `json:"opened"`     // times that the breaker opened
	HalfOpened uint64 `json:"halfOpened"` // times that it let a probe through
	Closed     uint64 `json:"closed"`     // times that it closed again
}

// Instance is one live connection with a server.
type Instance struct {
	Actor    string    `json:"actor"`
	PID      int       `json:"pid,omitempty"` // 0: no process yet, or a remote one
	State    string    `json:"state"`
	InFlight int       `json:"inFlight"`
	Session  uint64    `json:"session,omitempty"` // of the client that it is for; 0: all
	Since    time.Time `json:"since"`             // when it was spawned
}

// Living is how many of the server's instances live. The others have failed or are
// being ended, and are shown until their processes are gone.
func (s *HostServer) Living() (n int) {
	for i := range s.Instances {
		if !s.Instances[i].Ending() {
			n++
		}
	}
	return n
}

// Ending says whether the instance is lost, and what is left of it is being ended; it
// takes a place of the pool until that is done.
func (i *Instance) Ending() bool { return i.State == "FAILED" || i.State == "CLOSED" }

// ActorStatus is one living actor.
type ActorStatus struct {
	ID      string `json:"id"`      // path, as in a trace: metamcp/pool/breaker/NAME/conn#1
	Mailbox int    `json:"mailbox"` // messages that wait
}
