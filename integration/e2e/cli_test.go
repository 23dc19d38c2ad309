package e2e_test

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/metamcp/metamcp/integration/testkit"
)

// The scripts in testdata/script run metamcp as a shell would. Each has a home
// and a folder of its own, and what it starts there is gone when it ends.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	// Without the race detector, which takes three times as long to start hundreds of
	// commands; what it would look at here is looked at in hosts and in the engine's tests.
	bin := testkit.PlainBinary(t)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			m := testkit.NewMark()
			env.Defer(func() {
				// A command ends all that it has started before it does.
				testkit.AwaitMarkedGone(t, goneWithin, m)
			})
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", filepath.Dir(bin)+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv(testkit.MarkVariable, m)
			return nil
		},
	})
}
