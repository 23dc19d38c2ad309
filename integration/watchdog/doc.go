// Package watchdog ends the children of a host that cannot do it any more.
//
// A watchdog is a second process of the same program. It holds the reading end
// of a pipe from the host and the list of process trees that the host put on
// it. When the pipe closes without a goodbye, the host was killed, and the
// watchdog ends what is on the list and what carries the host's marker, all of
// it within three seconds. A journal in the state folder holds the same list
// for the case that the watchdog was killed too: the next start ends what is
// left ([EndLeftovers]).
//
// Both are there before the first process is started ([Host.Ready]), since a
// host may be killed before it can put on the list what it has just started.
//
// Importing the package is what makes a program able to be its own watchdog:
// an init function notices that the process was started as one and never
// returns. Packages are initialised in the order of their import paths as soon
// as all that they import is; so this one imports only what os and os/signal
// need anyway, and comes before everything that is heavy.
//
// On Windows job objects end the trees with the host, and all of this does
// nothing.
package watchdog
