package config

import (
	"fmt"
	"strings"
)

// KeysMarkdown returns the table of [Keys] for docs/CONFIGURATION.md.
func KeysMarkdown() string {
	var b strings.Builder
	b.WriteString("| key below `metamcp` | flag | variable | default | takes | what it does |\n|---|---|---|---|---|---|\n")
	for i := range keyTable {
		k := &keyTable[i]
		flags := "`--" + k.Flag + "`"
		for _, a := range k.Aliases {
			flags += ", `--" + a + "`"
		}
		doc := k.Doc
		if k.Restart {
			doc += " Needs a restart."
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s | %s |\n", k.Path, flags, k.Env, cell(k.Default), k.Range(), doc)
	}
	return b.String()
}

// EntriesMarkdown returns the table of [EntryKeys] for docs/CONFIGURATION.md.
func EntriesMarkdown() string {
	var b strings.Builder
	b.WriteString("| member | type | default | what it does |\n|---|---|---|---|\n")
	for i := range entryTable {
		k := &entryTable[i]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, k.Type, cell(k.Default), k.Doc)
	}
	return b.String()
}

func cell(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
