// Package typescript writes TypeScript signatures of tools, from which a model
// can write code without guessing what a tool takes and gives:
//
//	/** Reads a file. */
//	servers.files.read_file(args: { path: string; head?: number /* only the first lines */ }): Promise<{ content: string }>
//
// Schemas come from servers that nobody vouches for, in any draft of JSON
// Schema. Whatever they hold, a signature is valid TypeScript, one text for one
// schema, of bounded length, and made in bounded time: what does not fit is told
// in less detail, the innermost first. Nothing in a schema can end a comment or
// a string, and characters that nobody sees are left out of comments and written
// as escapes in names and values.
//
// A signature tells no more than a type can; what a schema says beyond that
// (not, if, dependentSchemas) is left to the schema.
package typescript
