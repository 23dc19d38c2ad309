package child

import "github.com/metamcp/metamcp/messages"

// resolve finds the file to execute.
func resolve(spec *messages.ServerSpec) (string, error) {
	if err := checkCwd(spec); err != nil {
		return "", err
	}
	return resolveByExtension(spec)
}
