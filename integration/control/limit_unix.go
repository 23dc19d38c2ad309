//go:build unix

package control

import "golang.org/x/sys/unix"

// clientPlaces is how many clients may be attached: as many as the limit of
// open files leaves room for, beside what the servers need.
func clientPlaces() int {
	const own, each = 64, 4 // of the host itself; of a client, and of a server that it starts
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > own+each*MaxClients { //nolint:unconvert // signed on FreeBSD
		return MaxClients
	}
	return max(1, (int(limit.Cur)-own)/each)
}
