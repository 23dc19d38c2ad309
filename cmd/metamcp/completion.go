package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/gallery"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/integration/trust"
)

// shells are those that completions can be written for.
var shells = map[string]func(root *cobra.Command, out io.Writer) error{
	"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
	"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
	"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print the completions for a shell",
		Long: `Print a script that completes commands, flags, and the names of servers and tools.
Names come from the configuration and from what servers listed last; nothing is
started.`,
		Example: `  source <(metamcp completion bash)
  metamcp completion bash > /etc/bash_completion.d/metamcp
  metamcp completion zsh > "${fpath[1]}/_metamcp"
  metamcp completion fish > ~/.config/fish/completions/metamcp.fish
  metamcp completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: []string{"bash", "fish", "powershell", "zsh"},
		Args: args(func(_ *cobra.Command, given []string) error {
			if len(given) != 1 || shells[given[0]] == nil {
				return errors.New("completion needs one shell: bash, zsh, fish or powershell")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, given []string) error { return shells[given[0]](cmd.Root(), cmd.OutOrStdout()) },
	}
}

// addCompletions gives commands the names that their arguments and flags take.
func addCompletions(root *cobra.Command, c *common) {
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "call":
			cmd.ValidArgsFunction = c.completeServerAndTool
		case "remove", "enable", "disable", "test":
			cmd.ValidArgsFunction = func(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
				return c.completeServers(given, word)
			}
		case "logs":
			cmd.ValidArgsFunction = func(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
				if len(given) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return c.completeServers(nil, word)
			}
		case "status":
			cmd.ValidArgsFunction = func(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
				if len(given) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return c.completeHosts(word)
			}
		case "auth":
			for _, sub := range cmd.Commands() {
				forSubcommand(cmd, sub.Name(), func(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
					return c.completeServers(given, word)
				})
			}
		case "approve":
			cmd.ValidArgsFunction = c.completeServerAndTool
		case "pins":
			forSubcommand(cmd, "diff", c.completeServerAndTool)
		case "secrets":
			forSubcommand(cmd, "remove", c.completeSecrets)
		case "trust":
			forSubcommand(cmd, "remove", c.completeTrust)
		case "add":
			cmd.ValidArgsFunction = completeGallery
		}
		for name, complete := range map[string]cobra.CompletionFunc{
			"server": func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
				return c.completeServers(nil, word)
			},
			"tool": c.completeToolFlag,
			"host": func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
				return c.completeHosts(word)
			},
			"category": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return gallery.Categories(), cobra.ShellCompDirectiveNoFileComp
			},
		} {
			// LocalNonPersistentFlags would put all flags of all commands together, which
			// takes each start milliseconds.
			if cmd.Flags().Lookup(name) != nil {
				// It fails only where the flag has one already.
				_ = cmd.RegisterFlagCompletionFunc(name, complete)
			}
		}
	}
}

func forSubcommand(cmd *cobra.Command, name string, complete cobra.CompletionFunc) {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name {
			sub.ValidArgsFunction = complete
		}
	}
}

// completeSecrets completes the name of a secret that is stored.
func (c *common) completeSecrets(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	store, _, err := c.secretStore()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	stored, err := store.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []string
	for _, s := range stored {
		if strings.HasPrefix(s.Name, word) && !slices.Contains(given, s.Name) {
			list = append(list, printable(s.Name))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeTrust completes what stands in the trust file.
func (c *common) completeTrust(cmd *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	path, err := c.trustFile()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	policy := trust.Load(path)
	entries := policy.Trusted
	if blocked, _ := cmd.Flags().GetBool("block"); blocked { // it has the flag
		entries = policy.Blocked
	}
	var list []string
	for _, e := range entries {
		if text := e.Text; strings.HasPrefix(text, word) && !slices.Contains(given, text) {
			list = append(list, printable(text))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completed is a completion with what the shell shows beside it.
func completed(name, about string) string {
	const most = 60
	about, _, _ = strings.Cut(strings.TrimSpace(about), "\n")
	if about = cutTo(printable(about), most, true); about == "" {
		return printable(name)
	}
	return printable(name) + "\t" + about
}

// completeServers completes the name of a server that was not given yet.
func (c *common) completeServers(given []string, word string) ([]string, cobra.ShellCompDirective) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp // who runs the command is told why
	}
	var list []string
	for _, spec := range cfg.Servers {
		if strings.HasPrefix(spec.Name, word) && !slices.Contains(given, spec.Name) {
			list = append(list, completed(spec.Name, spec.Description))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

// completeTools completes the name of a tool that a server listed last.
func (c *common) completeTools(server, word string) ([]string, cobra.ShellCompDirective) {
	cfg, err := config.Load(c.sources())
	if err != nil || cfg.Server(server) == nil || cfg.Settings.StateDir == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	sets, _ := index.NewCache(cfg.Settings.StateDir, safename.SafeName).LoadAll([]string{server}, 1) // a broken cache has none
	var list []string
	shown := withoutSecrets(cfg)
	for _, set := range sets {
		for _, tool := range set.Tools {
			if strings.HasPrefix(tool.Name, word) {
				list = append(list, completed(tool.Name, shown(tool.Description)))
			}
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

func (c *common) completeServerAndTool(_ *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	switch len(given) {
	case 0:
		return c.completeServers(nil, word)
	case 1:
		return c.completeTools(given[0], word)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeToolFlag completes --tool of the server of --server.
func (c *common) completeToolFlag(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	if f := cmd.Flag("server"); f != nil {
		return c.completeTools(f.Value.String(), word)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func (c *common) completeHosts(word string) ([]string, cobra.ShellCompDirective) {
	cfg, err := config.Load(c.sources())
	if err != nil || cfg.Settings.StateDir == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	hosts, _ := control.Hosts(cfg.Settings.StateDir) // where they cannot be listed there are none
	var list []string
	for _, h := range hosts {
		if strings.HasPrefix(h.Name, word) {
			list = append(list, completed(h.Name, fmt.Sprintf("pid %d", h.PID)))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}

func completeGallery(cmd *cobra.Command, given []string, word string) ([]string, cobra.ShellCompDirective) {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 && dash < len(given) { // completion itself puts one behind the last word
		return nil, cobra.ShellCompDirectiveDefault // a command of the shell
	}
	var list []string
	for _, e := range gallery.All() {
		if strings.HasPrefix(e.Name, word) && !slices.Contains(given, e.Name) {
			list = append(list, completed(e.Name, e.Description))
		}
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
