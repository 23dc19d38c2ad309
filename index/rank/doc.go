// Package rank finds the tools that fit a query. [Analyze] reads a tool once,
// [Build] makes an index of what was read, and [Index.Search] ranks by keywords
// (BM25F over the fields of a tool), by vectors where an embedder made some, and
// by what a query calls by name.
//
// The parameters are the same for all catalogs. They were chosen on
// the development part of the retrieval benchmark from a few round values each,
// and lie where a step up or down changes little.
package rank
