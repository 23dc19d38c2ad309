package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metamcp/metamcp/messages"
)

// hintedCommand is a command line of ours in a hint. Words that a text may have behind
// the program's name for what they mean, such as host, are none.
var hintedCommand = regexp.MustCompile(`\bmetamcp (add|approve|auth|disable|discover|doctor|enable|import|list|logs|pins|provision|registry|remove|secrets|test|token|trust)\b`)

// withSources has the commands in a text read the files, and have the state folder, that
// this command line names: without them what a hint tells to type is about others.
func withSources(cmd *cobra.Command, text string) string {
	var flags strings.Builder
	for _, name := range []string{"config", "state-dir"} {
		f := cmd.Root().PersistentFlags().Lookup(name)
		if !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			flags.WriteString(" --" + name + " " + messages.ShellWord(v))
		}
	}
	if flags.Len() == 0 || strings.Contains(text, " --config ") {
		return text // or it names the files itself
	}
	return hintedCommand.ReplaceAllStringFunc(text, func(found string) string {
		return "metamcp" + flags.String() + strings.TrimPrefix(found, "metamcp")
	})
}
