package e2e_test

import (
	"os"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
