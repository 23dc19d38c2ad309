package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/sandbox/worker"
)

// sandboxCommand is what this program starts itself with to run scripts.
const sandboxCommand = "sandbox-worker"

// newSandboxWorker is a command for the help of those who find the process. It
// is carried out before there are commands at all, see main.
func newSandboxWorker() *cobra.Command {
	return &cobra.Command{
		Use: sandboxCommand, Short: "Run scripts for a host, over standard input and output", Hidden: true, Args: args(noArgs),
		RunE: func(*cobra.Command, []string) error { return statusError(runSandboxWorker()) },
	}
}

func runSandboxWorker() int { return worker.Main(os.Stdin, os.Stdout, os.Stderr) }
