package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"strings"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"

	"github.com/metamcp/metamcp/integration/attach"
)

// socketFor returns the name of a host's pipe. Pipes have one flat space of
// names on a machine, so the folder is part of it.
func socketFor(dir, name string) (string, error) {
	sum := sha256.Sum256([]byte(strings.ToLower(dir) + "\x00" + name))
	return attach.PipePrefix + hex.EncodeToString(sum[:16]), nil
}

// listen makes the pipe; only this user and the system may open it.
func listen(_ context.Context, pipe string) (net.Listener, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("ask for the user of this process: %w", err)
	}
	return winio.ListenPipe(pipe, &winio.PipeConfig{
		SecurityDescriptor: "D:P(A;;GA;;;" + user.User.Sid.String() + ")(A;;GA;;;SY)",
	})
}

// removeDeadSocket reports whether the name is free; a pipe ends with its host.
func removeDeadSocket(ctx context.Context, pipe string) bool { return dead(ctx, pipe) }

// removeSocket has nothing to do: a pipe ends with its host.
func removeSocket(string) {}

// openFolder is "": the access list of the user's folder guards what is in it.
func openFolder(string) string { return "" }
