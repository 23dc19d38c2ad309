//go:build unix

package main

import (
	"errors"
	"os"
	osexec "os/exec"
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
	const patience = time.Minute
	home := t.TempDir()
	pipe := filepath.Join(home, "config.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(testkit.PlainBinary(t), "call", "server", "tool", "--config", pipe)
	cmd.Env = append(os.Environ(), "HOME="+home)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
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
		case err := <-ended:
			var exit *osexec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v", err)
			}
			return
		case <-again.C:
			_ = cmd.Process.Signal(syscall.SIGTERM) // fails once it has ended
		case <-tooLong:
			_ = cmd.Process.Kill()
			t.Fatal("it did not end")
		}
	}
}
