// Package config reads the files that tell a host which servers it stands in
// front of and how it behaves, and watches them for changes.
//
// [Load] turns files, METAMCP_… variables and flags into one immutable
// [Config]. A broken entry becomes a server that refuses with a reason; only a
// file that is not JSON, a bad flag or variable, and a bad tool rule (which
// would otherwise open what it was meant to close) fail the whole load.
// [Diff] turns two configurations into typed actions, and [Watch] calls back
// with the new configuration within two seconds of a change.
//
// Every setting of ours is one row of the table behind [Keys]: flags,
// variables, the file, the published JSON Schema and the documentation are all
// made from it.
//
// The package knows no editor's own configuration files, starts no process and
// resolves no command: it only says what was written and where.
package config
