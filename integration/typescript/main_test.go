package typescript

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/metamcp/metamcp/integration/demoserver"
)

// childVariable makes this test binary be the demo server.
const childVariable = "METAMCP_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	opts, err := demoserver.ParseArgs(os.Args[1:], os.Stderr)
	if err == nil {
		err = demoserver.Run(context.Background(), os.Stdin, os.Stdout, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
