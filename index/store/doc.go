// Package store keeps what the index has learned on disk: the tool listings of
// servers and the embeddings of tools, in a badger database of its own.
//
// Everything in it can be made again, so it never stands in the way: a store
// that is damaged is rebuilt empty and says so, one that another process holds
// or that a newer program wrote is left alone with an error, and the caller
// works in memory. Deleting the folder is safe at any time.
//
// The folder:
//
//	FORMAT   one line that marks the folder as ours, with the schema version
//	LOCK     locked while a process uses the folder; holds its process id
//	OPENING  how many attempts to open it in a row did not come to an end
//	db-N     badger's files; N grows with each rebuild
//
// The keys in badger, where <name> is a name made safe by escaping, so that no
// two names share a key:
//
//	meta/schema             the schema version and when it was written, JSON
//	v1/tools/<server>/<n>   part n of a server's listing, n as uint16
//	v1/model/<model>        a model's dimension, use and hit counts, JSON
//	v1/vector/<model>/<h>   one embedding, h is the SHA-256 of its text
//
// Every v1 record has a header of 12 bytes, little-endian: the format of the
// record (1), its kind, two zero bytes, a count (the dimension of a vector, the
// parts of a listing), and a CRC-32C over key, header and payload. A record that
// does not fit its header is treated as absent, counted, and deleted by the next
// write.
//
// Two properties of badger decide much of what this package does. It maps its
// files into memory, so that a full disk ends the process with SIGBUS in a
// goroutine of badger's rather than with an error; hence the reserve of free
// space that each write demands. And it ends the process (log.Fatal, or a panic
// in one of its goroutines) on files that it does not expect; hence the check of
// every file before badger sees it.
package store
