// Package embedtest helps the tests of embedders.
package embedtest

import (
	"testing"

	"github.com/metamcp/metamcp/index/embed"
)

// WantError ends the test unless err is an *[embed.Error] of that reason, as
// the interface promises.
func WantError(tb testing.TB, err error, reason embed.Reason) *embed.Error {
	tb.Helper()
	e, ok := err.(*embed.Error) //nolint:errorlint // the interface promises this type
	if !ok || e.Reason != reason {
		tb.Fatalf("got %T %v, want %s", err, err, reason)
	}
	return e
}
