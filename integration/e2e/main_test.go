package e2e_test

import (
	"os"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

func TestMain(m *testing.M) {
	if metamcp := os.Getenv(driverVariable); metamcp != "" {
		os.Exit(driveConformance(metamcp))
	}
	os.Exit(testkit.Main(m))
}
