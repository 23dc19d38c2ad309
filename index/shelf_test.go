package index

import (
	"fmt"
	"testing"
)

// A host that ends right after its servers have listed their tools has saved them all:
// the next one need not ask those servers again.
func TestWhatWaitsToBeSavedIsSavedAtTheEnd(t *testing.T) {
	const many = 4*savedAtOnce + 1
	dir := t.TempDir()
	told, untold := map[string][]string{}, map[string][]string{}
	for i := range many {
		name := fmt.Sprint("s", i)
		told[name], untold[name] = shop, nil
	}
	newHost(t, dir, nil, told).close()
	next := newHost(t, dir, nil, untold)
	if n := next.view.Load().Servers(); n != many {
		t.Errorf("the next host knows %d of %d servers", n, many)
	}
}
