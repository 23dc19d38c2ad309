package control

import (
	"context"

	"github.com/metamcp/metamcp/messages"
)

// Host is what stands behind the endpoints. Its methods are called from many
// goroutines at a time and must return soon after their context ends.
type Host interface {
	// Status describes the host as it is now; actors asks for the list of
	// living actors as well. Name, PID, Version, Started and Configs may be
	// left empty: the server fills in what it was started with. The result is
	// not changed.
	Status(ctx context.Context, actors bool) (*messages.HostStatus, error)
	// Draining says whether new calls are refused, at little cost: it is asked
	// often. The error says why the host does not answer.
	Draining(ctx context.Context) (bool, error)
	// Trace streams records until ctx ends; the returned channel is bounded and
	// lossy (drops come as [messages.TraceDropped] records), and closed when
	// the host ends. The first record, of kind [messages.TraceStart], is the
	// server's: one in the channel is left out.
	Trace(ctx context.Context) (<-chan messages.TraceRecord, error)
	// LogFiles returns the rotated stderr logs of a server, oldest first; see
	// the function [LogFiles]. A server that is not configured is a
	// *messages.Error with code SERVER_NOT_FOUND, one that said nothing yet has
	// no files.
	LogFiles(server string) ([]string, error)
}

// Measurer is a [Host] that can say what processes take.
type Measurer interface {
	// Usage fills in the usage of a status that the host has just made.
	Usage(st *messages.HostStatus)
}
