package front

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// takeStdoutChild is the process that TestTakeStdout runs.
func takeStdoutChild() {
	protocol, err := TakeStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("printed by a library")
	_, _ = os.NewFile(1, "fd 1").WriteString("written to fd 1\n")
	_, _ = protocol.WriteString("protocol\n")
}

// serveChild is a process that serves the client of its standard input and output.
func serveChild() {
	protocol, err := TakeStdout()
	if err == nil {
		err = Serve(context.Background(), os.Stdin, protocol, Options{MCP: newMCP(nil), Engine: &fakeEngine{}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestTakeStdout(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FRONT_TEST_ROLE=stdout")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if stdout.String() != "protocol\n" {
		t.Errorf("stdout: %q", stdout.String())
	}
	for _, want := range []string{"printed by a library", "written to fd 1"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q: %q", want, stderr.String())
		}
	}
}
