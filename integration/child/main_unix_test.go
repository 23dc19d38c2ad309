//go:build unix

package child

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes the test binary a fake server where its environment asks for
// one.
func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeVar); mode != "" {
		fake(mode)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
