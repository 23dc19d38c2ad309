package child

import (
	"fmt"
	"os/exec"

	"github.com/metamcp/metamcp/messages"
)

// resolve finds the file to execute by the rules of Windows (PATH and PATHEXT
// of this host, so that "npx" finds npx.cmd).
func resolve(spec *messages.ServerSpec) (string, error) {
	if err := checkCwd(spec); err != nil {
		return "", err
	}
	path, err := exec.LookPath(spec.Command)
	if err != nil {
		return "", &launchError{
			text: fmt.Sprintf("cannot start %q: spawn %s ENOENT: the command %q was not found in PATH; install it or give its full path",
				spec.Name, spec.Command, spec.Command),
			causes: withArgs(spec, ErrNoCommand, err),
		}
	}
	return path, nil
}
