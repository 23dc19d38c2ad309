package web_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/integration/demoserver"
)

// childVariable makes this test binary a child server: "demo", or "hostile",
// whose every text is an attack.
const childVariable = "METAMCP_TEST_WEB_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childVariable); kind != "" {
		if err := beChild(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func beChild(kind string) error {
	if kind == "hostile" {
		return beHostile(os.Stdin, os.Stdout)
	}
	opts, err := demoserver.ParseArgs(os.Args[1:], os.Stderr)
	if err != nil {
		return err
	}
	return demoserver.Run(context.Background(), os.Stdin, os.Stdout, opts)
}
