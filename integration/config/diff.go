package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// Action is one step from one configuration to another: [ServerAdded],
// [ServerRemoved], [ServerChanged], [ServerUpdated], [PoolChanged] or
// [SettingsChanged].
type Action interface{ action() }

// ServerAdded says that a server is new.
type ServerAdded struct{ Server *messages.ServerSpec }

// ServerRemoved says that a server is gone.
type ServerRemoved struct{ Server *messages.ServerSpec }

// ServerChanged says that what runs for Old is of no more use for New: another
// command, environment, address or credentials, or turned on or off, or broken
// or mended.
type ServerChanged struct{ Old, New *messages.ServerSpec }

// ServerUpdated says that what runs may go on: only timeouts, lifecycle,
// retry, description and the like differ.
type ServerUpdated struct{ Old, New *messages.ServerSpec }

// PoolChanged says that settings below "pool" differ; the new ones apply to
// a running pool.
type PoolChanged struct{ Old, New PoolSettings }

// SettingsChanged says that other settings differ, or some below "pool" that do not
// apply to a running one.
type SettingsChanged struct {
	New Settings // all that are in force now
	// Paths are the keys that differ, in the order of [Keys].
	Paths []string
	// Restart are those of Paths that take effect only in a new host: what is written
	// now is not in force. They are told once, when they are written.
	Restart []string
}

func (ServerAdded) action()     {}
func (ServerRemoved) action()   {}
func (ServerChanged) action()   {}
func (ServerUpdated) action()   {}
func (PoolChanged) action()     {}
func (SettingsChanged) action() {}

// Diff returns what has to be done to get from old to next: removals first, so
// that they make room, then changes, updates and additions in the order of the
// new file, then the pool and the rest. Where an entry stands in its file does
// not count. A nil old counts as empty with default settings.
func Diff(old, next *Config) []Action {
	if old == nil {
		old = &Config{Settings: DefaultSettings()}
	}
	var actions, additions []Action
	for _, s := range old.Servers {
		if next.Server(s.Name) == nil {
			actions = append(actions, ServerRemoved{s})
		}
	}
	for _, s := range next.Servers {
		switch before := old.Server(s.Name); {
		case before == nil:
			additions = append(additions, ServerAdded{s})
		case before.Hash != s.Hash || before.Disabled != s.Disabled || (before.Err == nil) != (s.Err == nil):
			actions = append(actions, ServerChanged{before, s})
		case !sameSpec(before, s):
			actions = append(actions, ServerUpdated{before, s})
		}
	}
	actions = append(actions, additions...)
	if old.Settings.Pool != next.Settings.Pool {
		actions = append(actions, PoolChanged{old.Settings.Pool, next.Settings.Pool})
	}
	rest := SettingsChanged{New: next.Settings}
	for i := range keyTable {
		k := &keyTable[i]
		before, after := &old.Settings, &next.Settings
		if k.Restart {
			before, after = old.afterRestart(), next.afterRestart()
		}
		if strings.HasPrefix(k.Path, "pool.") && !k.Restart || k.sameValue(before, after) {
			continue
		}
		rest.Paths = append(rest.Paths, k.Path)
		if k.Restart && !k.sameValue(&old.Settings, after) {
			rest.Restart = append(rest.Restart, k.Path)
		}
	}
	if len(rest.Paths) > 0 {
		actions = append(actions, rest)
	}
	return actions
}

// sameSpec compares all but the place in the file and the hash.
func sameSpec(a, b *messages.ServerSpec) bool {
	if a.Err != nil && b.Err != nil {
		// Nothing else is to be relied on.
		return a.Err.Message == b.Err.Message && a.Err.Hint == b.Err.Hint && slices.Equal(a.Err.Details, b.Err.Details)
	}
	process := a.Transport == b.Transport && a.Command == b.Command && slices.Equal(a.Args, b.Args) && slices.Equal(a.Env, b.Env) &&
		a.Cwd == b.Cwd && a.URL == b.URL && maps.Equal(a.Headers, b.Headers) && sameOAuth(a.OAuth, b.OAuth) && sameTLS(a.TLS, b.TLS)
	limits := a.Timeout == b.Timeout && a.MaxTimeout == b.MaxTimeout && a.StartupTimeout == b.StartupTimeout && a.StopGrace == b.StopGrace
	policy := a.Lifecycle == b.Lifecycle && a.IdleTimeout == b.IdleTimeout && a.MaxInstances == b.MaxInstances && a.Retry == b.Retry && a.Scope == b.Scope && a.MaxInFlight == b.MaxInFlight && a.HealthEvery == b.HealthEvery && a.Limits == b.Limits
	origin := (a.Provisioned == nil) == (b.Provisioned == nil) && (a.Provisioned == nil || *a.Provisioned == *b.Provisioned)
	return (a.Err == nil) == (b.Err == nil) && a.Name == b.Name && origin && process && limits && policy &&
		a.Description == b.Description && maps.Equal(a.Filled, b.Filled) && slices.Equal(a.Tags, b.Tags) && a.Disabled == b.Disabled && a.Guest == b.Guest && a.Unscrubbed == b.Unscrubbed && a.Asks == b.Asks
}

func sameOAuth(a, b *messages.OAuth) bool {
	return (a == nil) == (b == nil) && (a == nil || slices.Equal(a.Scopes, b.Scopes) && a.ClientID == b.ClientID && a.ClientSecret == b.ClientSecret &&
		a.PrivateKey == b.PrivateKey && a.MetadataURL == b.MetadataURL && a.Issuer == b.Issuer && a.RedirectPort == b.RedirectPort && a.ClientCredentials == b.ClientCredentials)
}
