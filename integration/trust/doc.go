// Package trust decides which servers may be installed without a person: by
// namespaces and names that a file lists, by how exactly somebody asked for the
// server, and by whether installing was allowed at all. It knows names that
// imitate others.
//
// [Policy.Decide] and [Measure] are pure functions. [Load] and [Edit] read and
// write the file. Whatever is wrong with that file, nothing is trusted then.
package trust
