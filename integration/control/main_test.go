package control_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/integration/control"
)

// hostVariable makes this test binary a host with a state folder, which serves
// its socket until it is killed.
const hostVariable = "METAMCP_TEST_CONTROL_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(hostVariable); dir != "" {
		os.Exit(beHost(dir))
	}
	goleak.VerifyTestMain(m)
}

func beHost(dir string) int {
	s, err := control.Serve(control.Options{StateDir: dir, Name: "victim", Host: newFakeHost()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("serving")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends this
	if err := s.Close(context.Background()); err != nil {
		return 1
	}
	return 0
}
