package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/secrets"
)

func newSecrets(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "secrets", Short: "Keep keys and passwords out of the configuration", Args: args(noArgs),
		Example: `  metamcp secrets set GITHUB_TOKEN
  metamcp secrets list`,
		Long: `A configuration names a secret as ${secret:NAME}, in any string; the value is in the
keyring of the operating system, or, where there is none, in secrets.json in stateDir,
which nobody else may read. docs/SECRETS.md says more.`,
	}
	cmd.AddCommand(newSecretsSet(c), newSecretsList(c), newSecretsRemove(c))
	return cmd
}

// secretStore returns the store, and who uses what; without a configuration
// that can be loaded nobody is known to.
func (c *common) secretStore() (store *secrets.Store, users map[string][]string, err error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil, nil, err
	}
	return secrets.New(cfg.Settings.StateDir), cfg.SecretUsers(), nil
}

func newSecretsSet(c *common) *cobra.Command {
	var variable string
	var inFile bool
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Store a secret", Args: args(oneArg),
		Long: `Store a secret, or give it another value. The value is read from standard input, up to
its end and without a last line feed; on a terminal it is asked for and not shown. It is
never an argument, since those are seen by everybody on the machine.

A running host takes the value at once, and starts the servers anew that use it.`,
		Example: `  metamcp secrets set GITHUB_TOKEN
  pass show github | metamcp secrets set GITHUB_TOKEN
  metamcp secrets set GITHUB_TOKEN --from-env GITHUB_TOKEN`,
		RunE: func(cmd *cobra.Command, given []string) error {
			name := given[0]
			if err := secrets.CheckName(name); err != nil {
				return usageError{err}
			}
			store, _, err := c.secretStore()
			if err != nil {
				return err
			}
			return interruptible(cmd.Context(), "nothing was stored", func(ctx context.Context) error {
				value, err := secretValue(ctx, cmd, name, variable)
				if err != nil {
					return err
				}
				place, err := store.Set(ctx, name, value, inFile)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is stored %s; write ${secret:%s} where it is needed\n", name, placeName(place, store), name)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&variable, "from-env", "", "take the value of this environment `variable`")
	cmd.Flags().BoolVar(&inFile, "file", false, "store it in the file even where there is a keyring")
	return cmd
}

func placeName(place secrets.Place, store *secrets.Store) string {
	if place == secrets.InKeyring {
		return "in the keyring"
	}
	return "in " + store.Path()
}

// secretValue gets the value from where the user has it.
func secretValue(ctx context.Context, cmd *cobra.Command, name, variable string) (string, error) {
	if variable != "" {
		value, ok := os.LookupEnv(variable)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", printable(variable))
		}
		return value, nil
	}
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return promptSecret(ctx, f, cmd.ErrOrStderr(), name)
	}
	text, err := io.ReadAll(io.LimitReader(in, secrets.MaxValue+2))
	if err != nil {
		return "", fmt.Errorf("the value cannot be read from standard input: %w", err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if value == "" {
		return "", errors.New("standard input is empty; give the value there")
	}
	return value, nil
}

// promptSecret reads one line that the terminal does not show.
func promptSecret(ctx context.Context, in *os.File, out io.Writer, name string) (string, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(out, "Value of %s (not shown): ", name)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() { // ends with the line, or with the program that was interrupted
		text, err := readHidden(in)
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		fmt.Fprintln(out)
		if (l.err == nil || errors.Is(l.err, io.EOF)) && len(l.text) == 0 {
			l.err = errors.New("no value was given")
		}
		return string(l.text), l.err
	case <-ctx.Done():
		fmt.Fprintln(out)
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// secretRow is one secret for people and scripts; no value is in it.
type secretRow struct {
	Name    string     `json:"name"`
	In      string     `json:"in,omitempty"` // "keyring", "file"; absent: it is not stored
	Changed *time.Time `json:"changed,omitempty"`
	UsedBy  []string   `json:"usedBy"`
}

func newSecretsList(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show which secrets there are, and who uses them", Args: args(noArgs),
		Example: `  metamcp secrets list
  metamcp secrets list --json`,
		Long: `Show the names of the secrets, where each is kept and which servers use it; never a
value. One that a server uses and that is not stored is "missing".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, users, err := c.secretStore()
			if err != nil {
				return err
			}
			list, err := store.List()
			if err != nil {
				return err
			}
			rows := secretRows(list, users)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), rows)
			}
			return printSecrets(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func secretRows(list []secrets.Entry, users map[string][]string) []secretRow {
	rows := []secretRow{}
	used := func(name string) []string {
		by := []string{}
		for _, u := range users[name] {
			if u == "" {
				u = "metamcp itself"
			}
			by = append(by, u)
		}
		return by
	}
	stored := map[string]bool{}
	for _, e := range list {
		stored[e.Name] = true
		rows = append(rows, secretRow{Name: e.Name, In: string(e.Place), Changed: &e.Changed, UsedBy: used(e.Name)})
	}
	for name := range users {
		if !stored[name] {
			rows = append(rows, secretRow{Name: name, UsedBy: used(name)})
		}
	}
	slices.SortFunc(rows, func(a, b secretRow) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

func printSecrets(out io.Writer, rows []secretRow) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "there are no secrets; metamcp secrets set NAME stores one")
		return err
	}
	t := table{width: terminalWidth(out)}
	t.row("NAME", "KEPT IN", "CHANGED", "USED BY")
	for _, r := range rows {
		in, changed := "missing", "-"
		if r.Changed != nil {
			in, changed = r.In, r.Changed.Local().Format(time.DateOnly)
		}
		by := strings.Join(r.UsedBy, ", ")
		if by == "" {
			by = "nobody"
		}
		t.row(r.Name, in, changed, printable(by))
	}
	return t.print(out)
}

func newSecretsRemove(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME…", Short: "Forget secrets", Args: args(someArgs),
		Long:    "Take secrets out of the store. Servers that use one are not started any more.",
		Example: "  metamcp secrets remove GITHUB_TOKEN",
		RunE: func(cmd *cobra.Command, given []string) error {
			store, users, err := c.secretStore()
			if err != nil {
				return err
			}
			missing := false
			for _, name := range given {
				removed, err := store.Remove(cmd.Context(), name)
				if err != nil {
					return err
				}
				switch by := users[name]; {
				case !removed:
					missing = true
					fmt.Fprintf(cmd.ErrOrStderr(), "%s was not stored\n", printable(name))
				case len(by) > 0:
					fmt.Fprintf(cmd.OutOrStdout(), "%s is removed; still used by: %s\n", name, printable(strings.Join(by, ", ")))
				default:
					fmt.Fprintf(cmd.OutOrStdout(), "%s is removed\n", name)
				}
			}
			if missing {
				return statusError(exitFailed)
			}
			return nil
		},
	}
}
