package conformance_test

import (
	"os"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// patience is for a run of the suite, on a loaded machine.
const patience = 15 * time.Minute

func TestMain(m *testing.M) {
	if address := os.Getenv(stageVariable); address != "" {
		os.Exit(takeTurn(address))
	}
	os.Exit(testkit.Main(m))
}
