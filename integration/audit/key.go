package audit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/metamcp/metamcp/integration/regular"
)

// keyBytes is the length of the key that arguments are hashed with.
const keyBytes = 32

// maxKeyFile is the most that is read of a file in the key's place, in bytes.
const maxKeyFile = 1 << 16

// loadKey reads the key beside path, or makes one. All hosts of a folder share
// it, so that the same arguments have the same hash in all their logs.
func loadKey(path string) ([]byte, error) {
	name := path + keySuffix
	key, _, err := regular.Read(name, maxKeyFile)
	if errors.Is(err, os.ErrNotExist) {
		if err := makeKey(name); err != nil {
			return nil, fmt.Errorf("make the key of the audit log: %w", err)
		}
		key, _, err = regular.Read(name, maxKeyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the audit log: %w", err)
	}
	if len(key) != keyBytes {
		return nil, fmt.Errorf("the key of the audit log, %s, has %d bytes and not %d; move it away and a new one is made, with which equal arguments no longer have equal hashes", name, len(key), keyBytes)
	}
	return key, nil
}

// makeKey writes a key that appears whole or not at all. Of several hosts that
// do so at once the first one's stays, since a link replaces nothing.
func makeKey(name string) (err error) {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(key)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), name); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
