package e2e_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/metamcp/metamcp/integration/testkit"
)

// The scripts in testdata/script run metamcp as a shell would. Each has a home
// and a folder of its own, and what it starts there is gone when it ends.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	// Those that only read and write files need no race detector.
	plain := []string{"script-config", "script-import", "script-init", "script-usage", "script-version"}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			m, bin := testkit.NewMark(), testkit.Binary(t)
			if slices.Contains(plain, filepath.Base(env.WorkDir)) {
				bin = testkit.PlainBinary(t)
			}
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
