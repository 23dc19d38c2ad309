//go:build !windows

package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/metamcp/metamcp/integration/testkit"
)

// A line may end with Ctrl-D, and one that is nothing else is no value.
func TestSecretPromptEndsWithCtrlD(t *testing.T) {
	const ctrlD = "\x04"
	for typed, want := range map[string]string{ctrlD: "error: no value was given", "\n": "error: no value was given", "hush" + ctrlD + ctrlD: "hush", "hush\r": "hush"} {
		terminal, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		before, err := term.GetState(int(tty.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		value := make(chan string, 1)
		go func() {
			v, err := promptSecret(t.Context(), tty, io.Discard, "A")
			if err != nil {
				v = "error: " + err.Error()
			}
			value <- v
		}()
		if _, err := terminal.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		select {
		case v := <-value:
			if v != want {
				t.Errorf("%q: %q, want %q", typed, v, want)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%q: the prompt goes on", typed)
		}
		if now, err := term.GetState(int(tty.Fd())); err != nil || *now != *before {
			t.Errorf("%q: the terminal is not as it was: %v", typed, err)
		}
		_, _ = terminal.Close(), tty.Close()
	}
}

// TestSecretPrompt: what is typed is taken and not shown.
func TestSecretPrompt(t *testing.T) {
	terminal, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = terminal.Close(), tty.Close() }()
	shown := make(chan string, 1)
	var out bytes.Buffer
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	value := make(chan string, 1)
	go func() {
		v, err := promptSecret(t.Context(), tty, &out, "A")
		if err != nil {
			v = "error: " + err.Error()
		}
		value <- v
	}()
	// The terminal shows what is typed until the prompt has turned that off.
	testkit.Eventually(t, time.Minute, func() error {
		now, err := term.GetState(int(tty.Fd()))
		if err == nil && *now == *before {
			err = errors.New("the terminal still shows what is typed")
		}
		return err
	})
	if _, err := terminal.WriteString("hush-hush\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case v := <-value:
		if v != "hush-hush" || !strings.Contains(out.String(), "Value of A (not shown): ") {
			t.Errorf("%q, %q", v, out.String())
		}
	case <-time.After(time.Minute):
		t.Fatal("the value was not taken")
	}
	if now, err := term.GetState(int(tty.Fd())); err != nil || *now != *before {
		t.Errorf("the terminal is not as it was: %v", err)
	}
	if _, err := tty.WriteString("END"); err != nil {
		t.Fatal(err)
	}
	go func() {
		var got []byte
		buf := make([]byte, 100)
		for !bytes.Contains(got, []byte("END")) {
			n, err := terminal.Read(buf)
			if err != nil {
				break
			}
			got = append(got, buf[:n]...)
		}
		shown <- string(got)
	}()
	select {
	case text := <-shown:
		if strings.Contains(text, "hush") {
			t.Errorf("the terminal shows %q", text)
		}
	case <-time.After(time.Minute):
		t.Fatal("the terminal shows nothing")
	}
}
