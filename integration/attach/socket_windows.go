package attach

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strings"

	"github.com/Microsoft/go-winio"
)

// PipePrefix begins the names of hosts' pipes.
const PipePrefix = `\\.\pipe\metamcp-`

// Plausible reports whether this may be the pipe of a host.
func Plausible(pipe, _ string) bool { return strings.HasPrefix(pipe, PipePrefix) }

// DialSocket connects with a host's pipe.
func DialSocket(ctx context.Context, pipe string) (net.Conn, error) {
	return winio.DialPipeContext(ctx, pipe)
}

// NobodyListens tells whether a failure of [DialSocket] means that there is no
// host.
func NobodyListens(err error) bool { return errors.Is(err, fs.ErrNotExist) }
