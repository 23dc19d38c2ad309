// Package metamcp is one MCP server in front of very many, as a library: the
// same engine that the metamcp command serves to LLM clients, for programs
// that embed it.
//
// [Open] reads a configuration and starts the runtime; no child server is
// started before somebody needs it. [Engine.ListServers], [Engine.Search],
// [Engine.ListTools] and [Engine.ToolDetails] look around, [Engine.Execute]
// and [Engine.Stream] call a tool, [Engine.Reload] takes a changed
// configuration over and [Engine.Close] ends every child process.
//
// All methods may be called from any goroutine. Unless a method says otherwise,
// errors are *[Error] values that say what failed, why, and what to do next.
package metamcp
