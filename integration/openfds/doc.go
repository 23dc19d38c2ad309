// Package openfds keeps what a process inherited without wanting it from living on:
// the helpers of a host (watchdog, script worker) are started by it and must not keep
// its files, sockets and pipes alive, nor may a host and its servers those of the shell
// that it was started from.
package openfds
