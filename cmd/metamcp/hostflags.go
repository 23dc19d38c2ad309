package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
)

// notForHosts are flags of the host's commands that are not the host's own.
var notForHosts = map[string]bool{
	"config": true, "dry-run": true, "replace": true, "log-file": true, "recovered": true, "now": true, "force": true, "json": true, "help": true,
}

// hostFlagWords are the flags that a command was given for its host, as --name=value.
// Paths are absolute: the host, or the next one, may start in another folder.
func hostFlagWords(cmd *cobra.Command) (words []string) {
	keys := map[string]config.Key{}
	for _, k := range config.Keys() {
		for _, name := range append(k.Aliases, k.Flag) {
			keys[name] = k
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if notForHosts[f.Name] {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			words = append(words, "--"+f.Name+"="+absoluteValue(keys[f.Name], v))
		}
	})
	return words
}

// absoluteValue is the value of a flag where it does not hang on the working folder.
func absoluteValue(key config.Key, value string) string {
	_, isBool := config.ParseBool(value)
	switch {
	case key.Path == "audit.file" && value == "off":
		return value
	case key.Type == config.TypePath:
	case key.Type == config.TypeTrace && value != "stderr" && !isBool:
	case strings.HasSuffix(value, ".gguf"): // a model that is a file
	default:
		return value
	}
	if value == "" || strings.HasPrefix(value, "~") {
		return value
	}
	if full, err := filepath.Abs(value); err == nil {
		return full
	}
	return value
}

// hostArguments are the words for the host of this command.
func (c *common) hostArguments(cmd *cobra.Command, cfg *config.Config) []string {
	return hostWords(cfg, hostFlagWords(cmd))
}

// hostWords are the words for the host of a configuration with these flags.
func hostWords(cfg *config.Config, flags []string) (words []string) {
	for _, f := range cfg.Files {
		words = append(words, "--config", f)
	}
	return append(words, flags...)
}

// newFlags are those of this command that a host was not started with.
func newFlags(cmd *cobra.Command, info *control.HostInfo) []string {
	return slices.DeleteFunc(hostFlagWords(cmd), func(word string) bool { return slices.Contains(info.Flags, word) })
}

// keepFlags gives this command the flags of the host that it replaces, unless it has
// the same ones itself. It returns those that were taken over.
func keepFlags(cmd *cobra.Command, info *control.HostInfo) (kept []string, err error) {
	if info == nil {
		return nil, nil
	}
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, word := range info.Flags {
		name, value, ok := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		f := cmd.Flags().Lookup(name)
		if !ok || f == nil || given[name] || notForHosts[name] {
			continue // another version may have had others
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			return nil, usageError{err}
		}
		kept = append(kept, word)
	}
	return kept, nil
}
