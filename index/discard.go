package index

import (
	"context"

	"github.com/metamcp/metamcp/supervision/kernel"
)

// Discard says that a server is gone that was never to stay: what it listed was for
// nobody, and what was written down of that is deleted. A server of another
// configuration that has its name stays, and so do Pins unless they are to go: they may
// be of an earlier one. Done is closed when that is over.
type Discard struct {
	Server string
	Hash   string // of its configuration
	Pins   bool
	Done   chan<- struct{}
}

func (a *indexActor) onDiscard(ctx *kernel.Context, m *Discard) {
	if spec := a.specs[m.Server]; spec != nil {
		if spec.Hash != m.Hash {
			close(m.Done)
			return
		}
		// The host ends and takes over no other configuration, or cannot read one. What
		// comes late of this one is outdated.
		delete(a.specs, m.Server)
		a.deps.View.store(a.deps.View.Load().Without(m.Server))
		a.setAccepted(m.Server, nil)
	}
	delete(a.saves, m.Server)
	delete(a.saved, m.Server)
	delete(a.pins.keeps, m.Server)
	delete(a.pins.late, m.Server)
	delete(a.pins.due, m.Server)
	delete(a.pins.unsettled, m.Server)
	deps, workers := a.deps, []<-chan struct{}{a.atDisk, a.pins.atDisk}
	ctx.System().Go(func(context.Context) {
		defer close(m.Done)
		for _, w := range workers {
			if w != nil {
				<-w // it may be writing what is to go
			}
		}
		if deps.Cache != nil {
			if err := deps.Cache.Discard(m.Server); err != nil {
				deps.Warn("what a server that is gone listed stays in the schema cache", "server", m.Server, "error", err)
			}
		}
		if deps.Keeper != nil && m.Pins {
			deps.Keeper.Forget(m.Server)
		}
	}, nil)
}

// Discard deletes a server's file. That there is none is no error.
func (c *Cache) Discard(server string) error {
	path, err := c.path(server)
	if err != nil {
		return err
	}
	return removeCached(path)
}
