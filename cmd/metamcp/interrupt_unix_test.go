//go:build unix

package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// A command that is interrupted while it waits has no answer, and says what may have
// happened: a search that is given up has not found nothing.
func TestInterruptedCommandsAnswerNothing(t *testing.T) {
	const patience = time.Minute
	for words, want := range map[string]string{
		"discover take a screenshot":        "no tool was called",
		"discover --json take a screenshot": "no tool was called",
		"discover --server mute":            "no tool was called",
		"call mute echo":                    "whether the call took effect is unknown",
		"exec sleeps.js":                    "whether a call that was under way took effect is unknown",
	} {
		t.Run(words, func(t *testing.T) {
			release := make(chan struct{})
			asked := make(chan struct{}, 64)
			mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				asked <- struct{}{}
				select {
				case <-r.Context().Done():
				case <-release:
				}
			}))
			t.Cleanup(mute.Close)
			t.Cleanup(func() { close(release) })
			home := t.TempDir()
			put(t, filepath.Join(home, ".mcp.json"), `{"mcpServers": {"mute": {"url": "`+mute.URL+`"}}}`)
			put(t, filepath.Join(home, "sleeps.js"), `console.log("begun"); await sleep(30000)`)
			p := testkit.StartCommand(t, testkit.Command{Path: testkit.PlainBinary(t), Args: strings.Fields(words), Env: []string{"HOME=" + home}, Dir: home})
			testkit.Eventually(t, patience, func() error {
				select {
				case <-asked:
					return nil
				default:
				}
				if p.Stderr.Contains("begun") {
					return nil
				}
				return errors.New("it has not begun")
			})
			p.Signal(t, syscall.SIGTERM)
			status := p.Wait(t, patience)
			out, err := io.ReadAll(p.Stdout(t))
			if said := "metamcp: interrupted; " + want + "\n"; status != exitInterrupted || err != nil || len(out) > 0 || !strings.Contains(p.Stderr.String(), said) {
				t.Errorf("status %d, %v, printed %q, said %q, want %q", status, err, out, p.Stderr, said)
			}
		})
	}
}
