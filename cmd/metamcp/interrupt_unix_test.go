//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// TestInsistingEndsACommand: a command whose configuration is a pipe to which nobody
// writes ends when it is interrupted again and again.
func TestInsistingEndsACommand(t *testing.T) {
	t.Parallel()
	const (
		patience = time.Minute
		bySignal = -1 // the exit status then
	)
	home := t.TempDir()
	pipe := filepath.Join(home, "config.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := testkit.StartCommand(t, testkit.Command{
		Path: testkit.PlainBinary(t), Args: []string{"call", "server", "tool", "--config", pipe}, Env: []string{"HOME=" + home}, Dir: home,
	})
	testkit.Eventually(t, patience, func() error {
		writer, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails while nobody reads
		if err == nil {
			t.Cleanup(func() { _ = writer.Close() })
		}
		return err
	})
	again := time.NewTicker(insistAfter / 4)
	defer again.Stop()
	tooLong := time.After(patience)
	for {
		select {
		case <-p.Exited():
			if got := p.Wait(t, patience); got != bySignal {
				t.Errorf("it ended with status %d: %s", got, p.Stderr)
			}
			return
		case <-again.C:
			p.Signal(t, syscall.SIGTERM)
		case <-tooLong:
			t.Fatal("it did not end")
		}
	}
}
