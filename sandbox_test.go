package metamcp

import (
	"slices"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/sandbox"
)

// A value as long as any configuration allows gets from the process to the host.
func TestWhatScriptsMayGiveFitsAFrame(t *testing.T) {
	keys := config.Keys()
	i := slices.IndexFunc(keys, func(k config.Key) bool { return k.Path == "execute.outputMb" })
	most := config.ExecuteSettings{OutputMB: int(keys[i].Max)}
	if got := sandboxSettings(most).Limits.OutputBytes; got > sandbox.MaxOutputBytes {
		t.Errorf("%s may be %d, which are %d bytes; %d fit", keys[i].Path, most.OutputMB, got, sandbox.MaxOutputBytes)
	}
}
