// Package provisioned keeps the servers that metamcp installed: the lock file
// provisioned.json in the state folder, which says what was installed, from
// where, with which hash and who allowed it, and the folders below servers/.
//
// A server counts as installed when the lock file names it, and at no other
// moment: the file is replaced whole, so there is no half of an installation. A
// folder that it does not name is either owned by a process that is at work on
// it ([Claim]), or left over ([Sweep]).
//
// A broken lock file is left as it is, and nothing that it names is started:
// nobody could tell any more what it was meant to say.
package provisioned
