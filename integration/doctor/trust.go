package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/metamcp/metamcp/integration/trust"
)

// trustFile looks whether it can be used. One that is missing is not made here.
func (p *Patient) trustFile(context.Context) []Result {
	path := p.Config.Settings.TrustFile
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return []Result{{Status: OK, Found: path + " is not there yet, and the default counts"}}
	}
	policy := trust.Load(path)
	if policy.Problem != "" {
		return []Result{{
			Status: Fail, Found: policy.Problem, Why: "Nobody is trusted, so no server is installed without a person, and what the file blocks is not known.",
			Fix: "Correct the file, or delete it to have the default.",
		}}
	}
	return []Result{{Status: OK, Found: fmt.Sprintf("%s: %d trusted, %d blocked", path, len(policy.Trusted), len(policy.Blocked))}}
}
