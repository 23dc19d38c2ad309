package index

import (
	"bytes"
	"hash/maphash"
	"maps"

	"github.com/metamcp/metamcp/messages"
)

// twins find, for a listing, a server that lists the same. Thousands of servers are
// often instances of a few programs: what their tools say is then held once. It
// belongs to the index actor.
type twins struct {
	seed    maphash.Seed
	servers map[uint64]string // the last server with a listing, by its hash
}

func newTwins() twins { return twins{maphash.MakeSeed(), map[uint64]string{}} }

// share makes the tools of ts use the memory of a server in cat that lists the same,
// and returns that server; nil: there is none. ts must be known to nobody else.
func (t *twins) share(cat *Catalog, ts *messages.Toolset) *ServerEntry {
	var h maphash.Hash
	h.SetSeed(t.seed)
	for _, tool := range ts.Tools {
		_, _ = h.Write(tool.Raw)
	}
	key := h.Sum64()
	like := cat.Server(t.servers[key])
	if like == nil || !sameTools(like.Toolset, ts) {
		t.bound(cat.Servers())
		t.servers[key] = ts.Server
		return nil
	}
	for i, tool := range ts.Tools {
		tool.Definition = like.Toolset.Tools[i].Definition
	}
	return like
}

// bound forgets everything where servers that change their tools for ever, or that
// are gone, have left more than there can be.
func (t *twins) bound(servers int) {
	const spare = 64
	if len(t.servers) > 2*servers+spare {
		clear(t.servers)
	}
}

// forget drops the servers that are gone.
func (t *twins) forget(known func(server string) bool) {
	maps.DeleteFunc(t.servers, func(_ uint64, server string) bool { return !known(server) })
}

// sameTools reports whether two listings have the same definitions in the same order.
func sameTools(x, y *messages.Toolset) bool {
	if len(x.Tools) != len(y.Tools) {
		return false
	}
	for i := range x.Tools {
		if !bytes.Equal(x.Tools[i].Raw, y.Tools[i].Raw) {
			return false
		}
	}
	return true
}
