package index

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/store"
	"github.com/metamcp/metamcp/messages"
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

// Each project with a configuration of its own has a host of its own, and they share a
// folder: one that cleans up leaves what the others will need.
func TestASweepLeavesWhatOtherConfigurationsKeep(t *testing.T) {
	dir := t.TempDir()
	big := newHost(t, dir, builtinEmbedder(t), map[string][]string{"shop": shop})
	big.settle()
	big.close()

	small := newHost(t, dir, builtinEmbedder(t), map[string][]string{"small": {shop[0]}, "gone": {shop[1]}})
	small.settle()
	cache := NewCache(dir, func(s string) string { return s })
	small.until("kept", func(Status) bool { return cache.has("gone") })
	known := make(chan struct{})
	small.sys.Send(small.pid, &Known{Specs: []*messages.ServerSpec{{Name: "small", Hash: "h"}}, Done: known})
	small.wait(known)
	small.sys.Send(small.pid, &Sweep{})
	small.until("swept", func(Status) bool { return !cache.has("gone") })
	small.close()

	// The vectors' turn comes once an hour.
	st, err := store.Open(filepath.Join(dir, "catalog"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	deps := &ActorDeps{Cache: cache, StorePath: filepath.Join(dir, "catalog")}
	servers := map[string]bool{"small": true}
	err = deps.keep(st, &diskWork{sweep: &sweeping{
		servers: servers, catalog: new(Catalog).With(toolset(t, "small", shop[0]), Labels{}),
		background: newBackground(), model: builtinEmbedder(t).Model(),
	}})
	listed := map[string]bool{}
	if err == nil {
		err = st.Listings(func(server string, _ []byte) error { listed[server] = true; return nil })
	}
	if err != nil {
		t.Error(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if !listed["shop"] || !listed["small"] || listed["gone"] {
		t.Errorf("the store has the listings of %v", listed)
	}

	again := builtinEmbedder(t)
	big = newHost(t, dir, again, map[string][]string{"shop": nil, "gone": nil})
	status := big.settle()
	if big.view.Load().Server("shop") == nil {
		t.Error("the other configuration's listing is gone")
	}
	if big.view.Load().Server("gone") != nil {
		t.Error("what left the configuration is still there")
	}
	if n := again.embedded(t); n != 0 {
		t.Errorf("%d tools had to be embedded again: %+v", n, status)
	}
}

// What is only in the store, and nobody's for long, goes.
func TestASweepTakesListingsThatNobodyUses(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	deps := &ActorDeps{Cache: NewCache(dir, func(s string) string { return s }), StorePath: dir}
	old, lately, used := toolset(t, "old", shop[0]), toolset(t, "lately", shop[0]), toolset(t, "used", shop[0])
	lately.Fetched = time.Now()
	old.Fetched = time.Now().Add(-unusedFor - time.Hour)
	used.Fetched = old.Fetched
	if _, err := deps.Cache.Save(used); err != nil {
		t.Fatal(err)
	}
	saves := map[string]*messages.Toolset{"old": old, "lately": lately, "used": used}
	if err := deps.keep(st, &diskWork{saves: saves, sweep: &sweeping{}}); err != nil {
		t.Fatal(err)
	}
	left := ""
	if err := st.Listings(func(server string, _ []byte) error { left += server + " "; return nil }); err != nil || left != "lately used " {
		t.Errorf("the store has %q, %v", left, err)
	}
}

// The vectors of another model may be another configuration's, and may have cost money: they
// stay for as long as its listings do.
func TestASweepKeepsVectorsOfAnotherModelLikeListings(t *testing.T) {
	now := time.Now()
	st, err := store.Open(t.TempDir(), store.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := st.PutVectors("theirs", []store.Vector{{Hash: [32]byte{1}, Values: []float32{1}}}); err != nil {
		t.Fatal(err)
	}
	sweep := &sweeping{catalog: new(Catalog), background: newBackground(), model: "ours"}
	used := now
	for _, c := range []struct {
		unused time.Duration
		want   int
	}{{unusedFor - time.Hour, 1}, {unusedFor + time.Hour, 0}} {
		now = used.Add(c.unused)
		if err := sweep.vectors(st); err != nil {
			t.Fatal(err)
		}
		stats, err := st.Stats()
		if err != nil || len(stats.Models) != c.want {
			t.Errorf("after %v the store has %+v, %v", c.unused, stats.Models, err)
		}
	}
}

// One server with a listing that the store never takes keeps no other from being stored,
// and nothing is tried again for its sake.
func TestAListingThatIsTooLargeForTheStoreHarmsNoOther(t *testing.T) {
	dir := t.TempDir()
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	saves := map[string]*messages.Toolset{
		"shop": toolset(t, "shop", shop...),
		"huge": toolset(t, "huge", definition("t", strings.Repeat("x", store.MaxListing), "{}")),
	}
	named := strings.Repeat("n", store.MaxServerName+1)
	saves[named] = toolset(t, named, shop[0])
	deps := &ActorDeps{Cache: NewCache(dir, func(s string) string { return s }), StorePath: dir}
	if err := deps.keep(st, &diskWork{saves: saves}); err != nil {
		t.Errorf("it would be tried again: %v", err)
	}
	left := ""
	if err := st.Listings(func(server string, _ []byte) error { left += server + " "; return nil }); err != nil || left != "shop " {
		t.Errorf("the store has %q, %v", left, err)
	}
}
