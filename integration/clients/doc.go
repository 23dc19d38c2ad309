// Package clients knows the programs that people talk to a model with: where
// each keeps its list of MCP servers, how an entry looks there, and how to
// change such a file so that everything else in it stays as it is.
//
// [Setup.PlanInit] and [Setup.PlanImport] say what would change, as [Change]s
// with a diff to show; [Apply] writes them, each atomically and with a backup
// that [Setup.Undo] puts back byte by byte. Nothing here asks anybody, and no
// value that looks like a secret is in what is meant to be shown.
package clients
