package main

import (
	"errors"
	"flag"
	"os"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/demoserver"
	"github.com/metamcp/metamcp/integration/front"
)

// newDemoServer is a child server that needs nothing but this binary. Its
// flags are its own package's, since it misbehaves in many ways for tests.
func newDemoServer() *cobra.Command {
	return &cobra.Command{
		Use: "demo-server [FLAGS]", Short: "Be a small MCP server, for trying metamcp out", DisableFlagParsing: true,
		Example: `  metamcp add demo -- metamcp demo-server
  metamcp demo-server --help`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := demoserver.ParseArgs(args, os.Stderr)
			if errors.Is(err, flag.ErrHelp) {
				return nil // said already
			}
			if err != nil {
				return usageError{err}
			}
			out, err := front.TakeStdout()
			if err != nil {
				return err
			}
			sayReading(os.Stderr, os.Stdin, "MCP, which clients write,")
			return demoserver.Run(cmd.Context(), os.Stdin, out, opts)
		},
	}
}
