package config

// maxInstances bounds the connections of one server.
const maxInstances = 1000

// maxMemoryMB bounds the memory of a server, and maxProcesses how many processes and
// threads it may have: what Linux has numbers for.
const (
	maxMemoryMB  = 1 << 20
	maxProcesses = 1 << 22
)

// EntryKey is one member of a server's entry.
type EntryKey struct {
	Name    string
	Type    string // for people: "string", "milliseconds", …
	Default string
	Doc     string
	// Min and Max bound whole numbers, both inclusive; both 0: no number.
	Min, Max int64

	schema map[string]any // JSON Schema of the value; nil: made from Min and Max
}

func stringSchema(more ...any) map[string]any {
	m := map[string]any{"type": "string"}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	return m
}

var (
	schemaStrings    = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	schemaStringMap  = map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	schemaTransports = stringSchema("enum", []any{"stdio", "http", "streamable-http", "streamableHttp", "sse"})
	schemaModes      = stringSchema("enum", []any{"keep-alive", "ephemeral"})
	schemaGrants     = stringSchema("enum", []any{grantCode, grantClient})
	schemaPort       = map[string]any{"type": "integer", "minimum": 1, "maximum": maxPort}
	schemaOAuth      = map[string]any{"type": "object", "properties": map[string]any{
		"clientId": stringSchema(), "clientSecret": stringSchema(), "privateKey": stringSchema(), "clientMetadataUrl": stringSchema(),
		"issuer": stringSchema(), "scopes": schemaStrings, "redirectPort": schemaPort, "callbackPort": schemaPort, "grant": schemaGrants,
	}}
)

var schemaTLS = map[string]any{"type": "object", "properties": map[string]any{"ca": stringSchema(), "cert": stringSchema(), "key": stringSchema()}}

// entryTable is ordered as people should read it.
var entryTable = []EntryKey{
	{Name: "command", Type: "string", Doc: "Program of a stdio server; ~/ is the home folder.", schema: stringSchema("minLength", 1)},
	{Name: "args", Type: "array of strings", Doc: "Its arguments.", schema: schemaStrings},
	{Name: "env", Type: "object of strings", Doc: "Variables that the child gets beside the safe ones.", schema: schemaStringMap},
	{Name: "inheritEnv", Type: "boolean or array of strings", Default: "false", Doc: "true: the host's whole environment; or names, in which * and ? stand for other characters.",
		schema: map[string]any{"oneOf": []any{map[string]any{"type": "boolean"}, schemaStrings}}},
	{Name: "cwd", Type: "string", Doc: "Working folder of the child; empty: the host's.", schema: stringSchema()},
	{Name: "url", Type: "string", Doc: "Address of a remote server; see REMOTE.md.", schema: stringSchema("minLength", 1)},
	{Name: "type", Type: "stdio, http, streamable-http or sse", Doc: "Transport; without it a command means stdio and a url means http.", schema: schemaTransports},
	{Name: "transportType", Type: "as type", Doc: "Another name of type.", schema: schemaTransports},
	{Name: "headers", Type: "object of strings", Doc: "HTTP headers of every request to a remote server.", schema: schemaStringMap},
	{Name: "tls", Type: "object", Doc: "Files for the connection to a remote server, each a PEM with its full path (~/ is the home folder): ca (certificates of authorities beside the system's), cert and key (of a client, where the server wants to know it).", schema: schemaTLS},
	{Name: "oauth", Type: "object", Doc: "How a remote server is logged in to, where what is found out by itself is not enough: clientId, clientSecret, privateKey, clientMetadataUrl, issuer, scopes, redirectPort, grant; see OAUTH.md.", schema: schemaOAuth},
	{Name: "disabled", Type: "boolean", Default: "false", Doc: "The server is not used.", schema: map[string]any{"type": "boolean"}},
	{Name: "timeoutMs", Type: "milliseconds", Default: "60000", Min: 1, Max: week, Doc: "One request; a progress notification starts it anew. Before it, a request waits for a busy child as long at most."},
	{Name: "timeout", Type: "milliseconds", Min: 1, Max: week, Doc: "Another name of timeoutMs, as Claude Code writes it."},
	{Name: "maxTimeoutMs", Type: "milliseconds", Default: "600000", Min: 1, Max: week, Doc: "One request that the server has, whatever progress or the call's own timeoutMs says; never less than timeoutMs."},
	{Name: "startupTimeoutMs", Type: "milliseconds", Default: "30000", Min: 1, Max: day, Doc: "From the start of the process to the end of the handshake. 180000 where the command is npx, uvx or another that downloads the server first."},
	{Name: "stopGraceMs", Type: "milliseconds", Default: "0", Min: 0, Max: 600_000, Doc: "Time to end by itself, from the closing of its stdin to SIGKILL, also when the host ends; 0: the usual 1,550 ms."},
	{Name: "lifecycle", Type: `"keep-alive", "ephemeral" or {"mode", "idleTimeoutMs"}`, Doc: "What happens when the server is idle; without it pool.idleTimeoutMs counts.",
		schema: map[string]any{"oneOf": []any{schemaModes, map[string]any{
			"type": "object", "required": []any{"mode"}, "additionalProperties": false,
			"properties": map[string]any{"mode": schemaModes, "idleTimeoutMs": map[string]any{"type": "integer", "minimum": 0, "maximum": week}},
		}}}},
	{Name: "maxInstances", Type: "integer", Default: "1", Min: 1, Max: maxInstances, Doc: "Connections that the server may have at once."},
	{Name: "healthIntervalMs", Type: "milliseconds", Default: "0", Min: 0, Max: day, Doc: "Distance of two pings while an instance is idle and its lifecycle keep-alive; one that does not answer within 5 s is ended. 0: no pings."},
	{Name: "limits", Type: "object", Doc: "What the server may have, on Linux: memoryMB, processes (with their threads), cpuSeconds of each process; see ISOLATION.md.",
		schema: map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
			"memoryMB":   map[string]any{"type": "integer", "minimum": 1, "maximum": maxMemoryMB},
			"processes":  map[string]any{"type": "integer", "minimum": 1, "maximum": maxProcesses},
			"cpuSeconds": map[string]any{"type": "integer", "minimum": 1, "maximum": week / 1000},
		}}},
	{Name: "maxInFlight", Type: "integer", Default: "1024", Min: 1, Max: 65_536, Doc: "Calls that one instance is given at once, three quarters of them of one client at most (over HTTP, of one token); more wait, and clients take turns. One with a url is given 256 at most. 1 is for servers that do one thing at a time."},
	{Name: "scope", Type: "shared or session", Default: "shared", Doc: "shared: every instance serves all clients. session: each client session has instances of its own, maxInstances at most, that end with it; see ISOLATION.md.", schema: stringSchema("enum", []any{"shared", "session"})},
	{Name: "retry", Type: "safe, always or never", Default: "safe", Doc: "When a call that was lost in a crash is sent once more.", schema: stringSchema("enum", []any{"safe", "always", "never"})},
	{Name: "scrub", Type: "boolean", Default: "true", Doc: "Remove secrets from what the server answers; metamcp.scrub must be on.", schema: map[string]any{"type": "boolean"}},
	{Name: "ask", Type: "boolean or array of form, url and sampling", Default: "true", Doc: "What the server may ask the client for while a call lasts: elicitation by form or url, and sampling; see PROTOCOL.md.",
		schema: map[string]any{"oneOf": []any{map[string]any{"type": "boolean"}, map[string]any{"type": "array", "items": map[string]any{"enum": []any{"form", "url", "sampling"}}}}}},
	{Name: "roots", Type: "boolean", Default: "false", Doc: "The server may ask for the client's folders too. One process serves all clients, so what it makes of them holds for all.",
		schema: map[string]any{"type": "boolean"}},
	{Name: "description", Type: "string", Doc: "One line for mcp_discover.", schema: stringSchema()},
	{Name: "tags", Type: "array of strings", Doc: "Words of yours, shown with the tools.", schema: schemaStrings},
}

// EntryKeys returns the members that a server's entry may have.
func EntryKeys() []EntryKey { return append([]EntryKey(nil), entryTable...) }

// entryNames are the names alone; entryIndex finds a member's place in the
// table by its name.
var entryNames, entryIndex = func() ([]string, map[string]int) {
	names, index := make([]string, len(entryTable)), make(map[string]int, len(entryTable))
	for i := range entryTable {
		names[i] = entryTable[i].Name
		index[names[i]] = i
	}
	return names, index
}()

// foreignNames are members that other programs write for the same purpose.
var foreignNames = map[string]string{
	"serverUrl":    "metamcp calls it url",
	"httpUrl":      "metamcp calls it url",
	"environment":  "metamcp calls it env",
	"enabled":      `write "disabled": true to turn a server off`,
	"envFile":      "write the variables into env, or start the host with them and use ${NAME}",
	"alwaysAllow":  "write metamcp.toolRules for what tools may be used",
	"autoApprove":  "write metamcp.toolRules for what tools may be used",
	"includeTools": "write metamcp.toolRules for what tools may be used",
	"excludeTools": "write metamcp.toolRules for what tools may be used",
}
