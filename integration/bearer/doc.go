// Package bearer keeps the bearer tokens by which clients over HTTP prove who
// they are: a file in the state folder with their names and hashes, which the
// commands change and a running host reads. A token itself is seen once, when
// it is made.
package bearer
