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
	bin := filepath.Dir(testkit.Binary(t))
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			m := testkit.NewMark()
			env.Defer(func() {
				// A command ends all that it has started before it does.
				testkit.AwaitMarkedGone(t, goneWithin, m)
			})
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv(testkit.MarkVariable, m)
			return nil
		},
	})
}
