// Package openfds closes what a process inherited without wanting it: the helpers
// of a host (watchdog, script worker) are started by it and must not keep its
// files, sockets and pipes alive.
package openfds
