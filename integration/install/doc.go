// Package install gets MCP servers onto this machine: npm and PyPI packages,
// bundles (MCPB) and images. Of a server that runs elsewhere there is only an
// entry.
//
// It goes in steps, so that everything can be said before anything is done:
// [Resolve] finds out what would be installed, in which exact version, with
// which hash, and what the server needs to know; it changes nothing on disk.
// [Plan.Install] does it in a staging folder that nobody looks at and moves
// it into place whole; [Installed.Keep] puts it into the lock file (package
// provisioned), and only then does any host start it. [Installed.Discard] undoes
// an installation, and what a killed process leaves is swept away later.
//
// Whether a server may be installed is not decided here; that is package trust.
//
// No code of a package runs before its server is started: install scripts are
// switched off, and so are builds of Python packages from source.
package install
