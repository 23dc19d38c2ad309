package npmservers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	installTimeout = 5 * time.Minute // one attempt
	attempts       = 3
)

// inProcess keeps the tests of one process apart, which a file lock does not
// do on every system.
var inProcess sync.Mutex

// install runs npm ci in dir unless what is there came from the same lock file.
// Whoever comes second waits, and finds the work done.
func install(ctx context.Context, dir string) (err error) {
	inProcess.Lock()
	defer inProcess.Unlock()
	lock, err := lockFile(filepath.Join(dir, ".install.lock"))
	if err != nil {
		return fmt.Errorf("lock %s against other tests: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()

	want, err := fingerprint(dir)
	if err != nil {
		return fmt.Errorf("read the pinned versions: %w", err)
	}
	stamp := filepath.Join(dir, "node_modules", ".installed")
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want {
		return nil
	}
	for attempt := 1; ; attempt++ {
		err = npmCI(ctx, dir)
		if err == nil {
			return os.WriteFile(stamp, []byte(want), 0o600)
		}
		if attempt == attempts || ctx.Err() != nil {
			return err
		}
	}
}

// npmCI installs exactly what the lock file says, and runs no script of any
// package: the servers need none.
func npmCI(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("the end-to-end tests need Node.js 20 or newer with npm in PATH: %w", err)
		}
		return fmt.Errorf("npm ci in %s: %w\n%s", dir, errors.Join(err, ctx.Err()), out.Bytes())
	}
	return nil
}

// fingerprint covers all that decides what npm ci installs.
func fingerprint(dir string) (string, error) {
	sum := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(data))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
