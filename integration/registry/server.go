package registry

import "time"

// A Server is one version of a server as the registry describes it
// (server.json), with what the registry adds. Whoever gets one must not change
// it: the cache holds the same.
type Server struct {
	Name        string      `json:"name"` // reverse DNS, like io.github.user/weather; of a built-in one its package's, of one of the gallery a short one
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description"`
	Version     string      `json:"version,omitempty"` // "" of a built-in one: whatever is newest
	WebsiteURL  string      `json:"websiteUrl,omitempty"`
	Repository  *Repository `json:"repository,omitempty"`
	Packages    []Package   `json:"packages,omitempty"`
	Remotes     []Transport `json:"remotes,omitempty"`

	// What the registry says of it.
	Status        Status    `json:"-"`
	StatusMessage string    `json:"-"`
	PublishedAt   time.Time `json:"-"`
	UpdatedAt     time.Time `json:"-"`
	Latest        bool      `json:"-"`
	// Dropped says which packages and remotes were left out, and why.
	Dropped []string `json:"-"`
}

// IsBuiltin says that it is of the built-in list, whoever answered with it: no
// registry has such names.
func (s *Server) IsBuiltin() bool { return !namePattern().MatchString(s.Name) }

// Status is where a version stands in its life.
type Status string

// The states of a version. Whatever else a registry says counts as Deprecated,
// since something is wrong then.
const (
	Active     Status = "active"
	Deprecated Status = "deprecated" // still there, with a warning
	Deleted    Status = "deleted"    // must not be installed
)

// Repository is where the source is.
type Repository struct {
	URL       string `json:"url"`
	Source    string `json:"source,omitempty"`
	ID        string `json:"id,omitempty"`
	Subfolder string `json:"subfolder,omitempty"`
}

// Kind says where a package comes from.
type Kind string

// The kinds of packages that metamcp knows how to start; registries have more
// (nuget, cargo), which are shown only.
const (
	NPM  Kind = "npm"
	PyPI Kind = "pypi"
	OCI  Kind = "oci"
	MCPB Kind = "mcpb"
)

// Package is one way to get a server.
type Package struct {
	Kind       Kind   `json:"registryType"`
	Identifier string `json:"identifier"` // a name, an image with or without tag, or the URL of a bundle
	// Version is exact; "" where the identifier says it, or of a built-in server.
	Version string `json:"version,omitempty"`
	// BaseURL is where the entry says that the package is. Only for show: a name
	// is resolved by the package manager of this machine, as that is set up.
	BaseURL     string     `json:"registryBaseUrl,omitempty"`
	SHA256      string     `json:"fileSha256,omitempty"` // 64 hexadecimal digits, or ""
	RuntimeHint string     `json:"runtimeHint,omitempty"`
	Transport   Transport  `json:"transport"`
	RuntimeArgs []Argument `json:"runtimeArguments,omitempty"` // for npx, uvx, docker …
	PackageArgs []Argument `json:"packageArguments,omitempty"` // for the program itself
	Environment []KeyValue `json:"environmentVariables,omitempty"`
}

// Transport is how one speaks with a server: "stdio", "streamable-http" or
// "sse"; the URL may hold {variables}.
type Transport struct {
	Type      string           `json:"type"`
	URL       string           `json:"url,omitempty"`
	Headers   []KeyValue       `json:"headers,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// Input is a value that somebody has to give, or that is given.
type Input struct {
	Description string `json:"description,omitempty"`
	Required    bool   `json:"isRequired,omitempty"`
	Secret      bool   `json:"isSecret,omitempty"`
	Format      string `json:"format,omitempty"` // string, number, boolean, filepath; "": string
	// Value is fixed by the publisher; {variables} in it are replaced.
	Value       string           `json:"value,omitempty"`
	Default     string           `json:"default,omitempty"`
	Placeholder string           `json:"placeholder,omitempty"`
	Choices     []string         `json:"choices,omitempty"`
	Variables   map[string]Input `json:"variables,omitempty"`
}

// KeyValue is an environment variable or a header.
type KeyValue struct {
	Name string `json:"name"`
	Input
}

// Argument is a word of a command line: "positional", or "named" with the flag
// as Name, dashes included.
type Argument struct {
	Type      string `json:"type"`
	Name      string `json:"name,omitempty"`
	ValueHint string `json:"valueHint,omitempty"`
	Repeated  bool   `json:"isRepeated,omitempty"`
	Input
}
