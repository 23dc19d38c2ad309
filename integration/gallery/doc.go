// Package gallery is a list of well-known MCP servers that a person can add to
// the configuration by a short name: `metamcp add github`.
//
// It is data (gallery.json, shaped as gallery.schema.json says) and the words
// of a command line that follow from it. It says nothing about whether a server
// can be trusted, which is for the person who adds it; metamcp installs nothing
// from it by itself.
package gallery
