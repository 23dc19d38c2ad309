package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages into a folder",
		Long: `Write one man page for each command into a folder, which is made where it is not
there. Settings that every command takes are on the page of metamcp settings.`,
		Example: `  metamcp man ~/.local/share/man/man1
  metamcp man ./man && man ./man/metamcp-add.1`,
		Args: args(oneArg),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := os.MkdirAll(given[0], 0o755); err != nil { //nolint:gosec // G301: everybody may read man pages
				return fmt.Errorf("the folder cannot be made: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "METAMCP", Section: "1", Source: "metamcp " + buildVersion(), Manual: "metamcp"}
			if err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{Header: header, Path: given[0], CommandSeparator: "-"}); err != nil {
				return fmt.Errorf("the man pages cannot be written: %w", err)
			}
			return nil
		},
	}
}
