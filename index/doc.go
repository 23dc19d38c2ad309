// Package index holds what metamcp knows of its children's tools: it reads
// their listings, keeps them in an immutable catalog and on disk, finds tools
// for a query and judges arguments against input schemas.
//
// A [Catalog] never changes after it was made, so that one owner may replace it
// while any number of goroutines read an older one. That owner is the index
// actor ([NewActor]); what it needs from the disk or from an embedder is done by
// workers that it starts. Nothing here trusts a child: every input has a bound,
// and an odd tool costs that tool only.
package index
