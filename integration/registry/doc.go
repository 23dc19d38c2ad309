// Package registry asks an MCP registry (API v0.1) which servers there are, and
// knows what to answer when it cannot be asked: what it said before, kept on
// disk, and else a built-in list of 20 servers.
//
// A registry is read as if it lied. Each answer is bounded in bytes, pages,
// entries, redirects and time; each entry is judged by itself, so a bad one
// costs nothing but itself, and what was left out is said in the notes of the
// answer. Texts are cut and freed of characters that nobody sees, since models
// and terminals read them. Nothing here decides whom to trust; that is package
// trust.
package registry
