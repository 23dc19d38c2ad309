//go:build !linux

package limits

import (
	"errors"

	"github.com/metamcp/metamcp/messages"
)

// ApplyTo fails where anything is to be bounded: this system offers no way.
func ApplyTo(_ int, l messages.Limits, _ *Group) error {
	if l == (messages.Limits{}) {
		return nil
	}
	return errors.New("limits are only kept on Linux")
}
