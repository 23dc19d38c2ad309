package liveview

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/integration/testkit"
)

func TestMain(m *testing.M) {
	code := testkit.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
