//go:build unix && !linux

package install

import (
	"errors"
	"testing"
)

func mountSmall(*testing.T, string) error { return errors.New("only Linux has a tmpfs") }
