package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/bearer"
	"github.com/metamcp/metamcp/integration/config"
)

func newToken(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Say who may use a host over HTTP", Args: args(noArgs),
		Example: `  metamcp token add laptop
  metamcp token list`,
		Long: `A host of "metamcp serve --http" that other machines reach wants a token of every client,
and one that only this machine reaches does as soon as there is a token. Only hashes are
kept, in http-tokens.json in stateDir. docs/HTTP.md says more.`,
	}
	cmd.AddCommand(newTokenAdd(c), newTokenList(c), newTokenRemove(c))
	return cmd
}

func (c *common) tokenStore() (*bearer.Store, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil, err
	}
	return bearer.New(cfg.Settings.StateDir, nil), nil
}

func newTokenAdd(c *common) *cobra.Command {
	var lifetime time.Duration
	var noProvision, replace bool
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Make a token for a client", Args: args(oneArg),
		Long: `Make a token and print it, this once. Its client sends it with every request, in the
header Authorization: Bearer TOKEN. A running host knows it at once. With --replace the
token of that name, expired or lost, is good for nothing any more.`,
		Example: `  metamcp token add laptop
  metamcp token add laptop --replace
  metamcp token add ci --expires 720h --no-provision`,
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := bearer.CheckName(given[0]); err != nil {
				return usageError{err}
			}
			if lifetime < 0 {
				return usageError{fmt.Errorf("--expires %v: use a time above 0, such as 720h", lifetime)}
			}
			store, err := c.tokenStore()
			if err != nil {
				return err
			}
			add := store.Add
			if replace {
				add = store.Replace
			}
			token, err := add(cmd.Context(), given[0], lifetime, noProvision)
			if errors.Is(err, bearer.ErrTaken) {
				return fmt.Errorf("%w; metamcp token add %s --replace makes a new one in its place, or take another name", err, given[0])
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the token %s, which is not shown again; give it to one client:\n", given[0])
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	cmd.Flags().DurationVar(&lifetime, "expires", 0, "how long it is good for, such as 720h; 0: until it is removed")
	cmd.Flags().BoolVar(&replace, "replace", false, "in the place of the token of that name, if there is one")
	cmd.Flags().BoolVar(&noProvision, "no-provision", false, "its clients cannot have servers installed with mcp_provision, nor store secrets or log in for all")
	return cmd
}

func newTokenList(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show which tokens there are", Args: args(noArgs),
		Example: `  metamcp token list
  metamcp token list --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := c.tokenStore()
			if err != nil {
				return err
			}
			list, err := store.List()
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			if len(list) == 0 {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), "there are no tokens; metamcp token add NAME makes one")
				return err
			}
			t := table{width: terminalWidth(cmd.OutOrStdout())}
			t.row("NAME", "MADE", "EXPIRES", "MAY PROVISION")
			for _, k := range list {
				expires, may := "never", "yes"
				if !k.Expires.IsZero() {
					if expires = clock(k.Expires); k.Expired(time.Now()) {
						expires += " (expired)"
					}
				}
				if k.NoProvision {
					may = "no"
				}
				t.row(k.Name, k.Created.Local().Format(time.DateOnly), expires, may)
			}
			return t.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; the hashes are in it, and no token")
	return cmd
}

func newTokenRemove(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME…", Short: "Forget tokens", Args: args(someArgs),
		Long:    "Forget tokens. A running host refuses their clients at once.",
		Example: "  metamcp token remove laptop",
		RunE: func(cmd *cobra.Command, given []string) error {
			store, err := c.tokenStore()
			if err != nil {
				return err
			}
			missing, some := false, false
			for _, name := range given {
				removed, err := store.Remove(cmd.Context(), name)
				switch {
				case err != nil:
					return err
				case !removed:
					missing = true
					fmt.Fprintf(cmd.ErrOrStderr(), "there is no token %s\n", printable(name))
				default:
					some = true
					fmt.Fprintf(cmd.OutOrStdout(), "the token %s is removed\n", name)
				}
			}
			if left, err := store.Any(); some && err == nil && !left {
				fmt.Fprintln(cmd.ErrOrStderr(), "no token is left: a host that runs lets nobody in over HTTP until it ends; one that is started after that lets in all programs of this machine, unless there is a token again")
			}
			if missing {
				return statusError(exitFailed)
			}
			return nil
		},
	}
}
