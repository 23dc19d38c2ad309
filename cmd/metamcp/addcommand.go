package main

import (
	"errors"
	"fmt"
	osexec "os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metamcp/metamcp/integration/gallery"
	"github.com/metamcp/metamcp/messages"
)

// starters are programs with which documents of servers begin their commands.
var starters = []string{"npx", "pnpx", "bunx", "uvx", "uv", "pipx", "node", "deno", "bun", "python", "python3", "docker", "podman"}

// commandAt is where the names of a command line go on as a command whose -- was
// forgotten; -1: nowhere. certain says that its program is no server's name as well.
func commandAt(names []string) (at int, certain bool) {
	for i, word := range names {
		known := gallery.Find(word) != nil
		if slices.Contains(starters, word) {
			return i, !known
		}
		if i == 0 || known {
			continue
		}
		if _, err := osexec.LookPath(word); err == nil {
			return i, false
		}
	}
	return -1, false
}

// behindDash says how the command is written that begins at a place among names, with
// rest behind it.
func behindDash(names []string, at int, rest ...string) string {
	words := []string{"NAME"}
	if at > 0 {
		words[0] = messages.ShellWord(names[at-1])
	}
	words = append(words, "--")
	for _, word := range names[at:] {
		words = append(words, messages.ShellWord(word))
	}
	return "a command stands behind --: metamcp add " + strings.Join(append(words, rest...), " ")
}

// flagOfCommand says of a flag that add does not have where it may be one of a command.
// The flags before it are read by then, and those behind it are not.
func flagOfCommand(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if at, _ := commandAt(cmd.Flags().Args()); at >= 0 && errors.As(err, &unknown) {
		flag := "-" + unknown.GetSpecifiedShortnames()
		if flag == "-" {
			flag = "--" + unknown.GetSpecifiedName()
		}
		return usageError{fmt.Errorf("%w; %s", err, behindDash(cmd.Flags().Args(), at, flag, "…"))}
	}
	return cmd.Parent().FlagErrorFunc()(cmd, err)
}
