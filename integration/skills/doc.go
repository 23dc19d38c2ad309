// Package skills finds skills: folders with a SKILL.md, which tells a model how
// something is done and, in its front matter, which MCP servers that takes.
//
// [Reader.Read] looks into the usual folders and says of each skill what its
// front matter says; the text below is for the model to read, and nothing here
// looks at it. Files are those of anybody: what is read of them is bounded, and
// one that is broken is a [Problem] and takes no other down.
package skills
