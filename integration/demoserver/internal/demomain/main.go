// Command demomain is the demo server and nothing else, for tests, which start
// thousands: `metamcp demo-server` brings the whole of metamcp and takes ten times
// as long to start.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/metamcp/metamcp/integration/demoserver"
)

func main() { os.Exit(run()) }

func run() int {
	opts, err := demoserver.ParseArgs(os.Args[1:], os.Stderr)
	if err == nil {
		opts.Self = os.Args[:1]
		err = demoserver.Run(context.Background(), os.Stdin, os.Stdout, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
