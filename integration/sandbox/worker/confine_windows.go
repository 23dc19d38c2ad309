package worker

import "github.com/metamcp/metamcp/integration/sandbox"

// confine has nothing to do here that a process can do to itself.
func confine() sandbox.Status {
	return sandbox.Status{Landlock: "only on Linux", Seccomp: "only on Linux", Rlimits: "not on Windows"}
}
