package metamcp

import (
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
)

// changed marks lists of a server that may have changed. list "": all.
func (l *childLists) changed(server string, list actors.ChildList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind := range listKinds {
		c := l.lists[listKey{server, listKind(kind)}]
		ofPrompts := listKind(kind) == listPrompts
		if c == nil || list == actors.PromptList && !ofPrompts || list == actors.ResourceList && ofPrompts {
			continue
		}
		switch {
		case c.reading != nil && list == "": // it is being read from the new child
		case c.reading != nil:
			c.again = true
		case c.read:
			c.stale = true
		}
	}
}

// scrubChanged takes notice of a configuration in force that takes the secrets out of what
// other servers say than the old one.
func (x *exposure) scrubChanged(old, now *config.Config) {
	clean := func(cfg *config.Config, server string) bool {
		spec := cfg.Server(server)
		return cfg.Settings.Scrub && (spec == nil || !spec.Unscrubbed)
	}
	x.lists.forgetScrubbed(func(server string) bool { return clean(old, server) != clean(now, server) })
	x.poke()
}

// forgetScrubbed drops what is kept of the lists of those servers whose secrets are
// taken out from now on, or no longer: items are kept as they came. A server that cannot
// be asked lists nothing then, rather than a secret. What a reading under way has read
// already is dropped with it.
func (l *childLists) forgetScrubbed(others func(server string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, c := range l.lists {
		if !others(key.server) {
			continue
		}
		l.bytes -= c.bytes
		l.stamp++
		// The print stays, so that clients are told only where the list is another one;
		// of one that was never read, whether somebody missed it is not known any more.
		anew := &childList{hash: c.hash, told: c.told, read: c.read, missed: true, stale: c.read}
		anew.print = c.print
		l.lists[key] = anew
	}
}

// renew reads lists that changed anew, each at its own pace, and returns the
// notifications of those that are others now, and when the next one is due; 0:
// none is. It waits for a moment, so that what is there soon is told at once; a
// server that takes longer does not hold up what the others have to tell.
func (l *childLists) renew() (notices []string, next time.Duration) {
	readings, next := l.beginDue(time.Now())
	late := time.After(tellPause)
	for _, done := range readings {
		select {
		case <-done:
		case <-late:
			return l.untold(), next // keep pokes once the others are there
		case <-l.x.ctx.Done():
			return nil, 0
		}
	}
	return l.untold(), next
}

// beginDue begins to read the lists that changed and whose time has come. next is
// when the first of the others is due; 0: none is.
func (l *childLists) beginDue(now time.Time) (readings []<-chan struct{}, next time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, c := range l.lists {
		if !c.stale || c.reading != nil {
			continue
		}
		wait := c.due.Sub(now)
		if !l.x.connected(key.server) {
			wait = lastPause // it is not started for that, but read when it is there for something else
		}
		if wait > 0 {
			if next == 0 || wait < next {
				next = wait
			}
			continue
		}
		if now.Sub(c.due) > 2*c.pause {
			c.pause = 0
		}
		c.pause = min(max(2*c.pause, tellPause), lastPause)
		c.due = now.Add(c.pause)
		readings = append(readings, l.begin(key, c, true))
	}
	return readings, next
}

// untold are the notifications of the lists that are others than clients know,
// which counts as told from then on.
func (l *childLists) untold() (notices []string) {
	var offering [len(listKinds)]string
	for kind := range listKinds {
		_, offering[kind] = l.offering(listKind(kind))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	others := map[string]bool{}
	for key, c := range l.lists {
		if c.told != c.print {
			c.told = c.print
			others[listKinds[key.kind].notice] = l.x.shows(key.kind)
		}
	}
	for kind, m := range l.merged {
		if m != nil && l.told[kind] != offering[kind] {
			l.told[kind] = offering[kind]
			others[listKinds[kind].notice] = l.x.shows(listKind(kind))
		}
	}
	for method, shown := range others {
		if shown {
			notices = append(notices, method)
		}
	}
	return notices
}

// connected says whether a server is there, so that to ask it something starts nothing.
func (x *exposure) connected(server string) bool {
	entry, ok := x.e.core.Directory().Lookup(server)
	return ok && entry.Status().Connected
}

func (x *exposure) shows(kind listKind) bool {
	if kind == listPrompts {
		return x.prompts
	}
	return x.resources
}
