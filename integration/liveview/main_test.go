package liveview

import (
	"fmt"
	"os"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

func TestMain(m *testing.M) {
	code := testkit.Main(m)
	if err := testkit.Leaks(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
