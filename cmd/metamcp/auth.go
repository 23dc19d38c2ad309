package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/oauth"
	"github.com/metamcp/metamcp/messages"
)

func newAuth(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "auth", Short: "Log in to remote servers with OAuth", Args: args(noArgs),
		Long: `A remote server that asks for it is logged in to once, in a browser. The tokens are
kept in the keyring of the operating system, or, where there is none, in a file of
stateDir that nobody else may read; hosts that run take them at once, and renew them.
docs/OAUTH.md says more.`,
		Example: `  metamcp auth login linear
  metamcp auth status`,
	}
	cmd.AddCommand(newAuthLogin(c), newAuthStatus(c), newAuthLogout(c))
	return cmd
}

// loginClient returns what logs in to a server of the configuration.
func (c *common) loginClient(m *oauth.Manager, cfg *config.Config, name string) (*oauth.Client, error) {
	spec, err := serverOf(cfg, name)
	switch {
	case err != nil:
		return nil, err
	case spec.Transport == messages.TransportStdio:
		return nil, fmt.Errorf("%s is a program of this machine, and only servers behind a url are logged in to; its credentials go into env", printable(name))
	case spec.HasAuthorization():
		return nil, fmt.Errorf("%s has an Authorization header in its entry, which is used in the place of a login; remove it first", printable(name))
	}
	return m.Client(spec)
}

// serverOf returns a server that can be used.
func serverOf(cfg *config.Config, name string) (*messages.ServerSpec, error) {
	spec := cfg.Server(name)
	switch {
	case spec == nil && cfg.LeftOut(name) != nil:
		return nil, cfg.LeftOut(name)
	case spec == nil:
		return nil, usageError{fmt.Errorf("there is no server %s; metamcp list shows those there are", printable(name))}
	case spec.Err != nil:
		return nil, spec.Err
	}
	return spec, nil
}

// logins opens what is known of logins, and the configuration.
func (c *common) logins() (*oauth.Manager, *config.Config, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil, nil, err
	}
	log, err := c.logger()
	if err != nil {
		return nil, nil, err
	}
	return oauth.New(oauth.Options{StateDir: cfg.Settings.StateDir, Log: log}), cfg, nil
}

func newAuthLogin(c *common) *cobra.Command {
	var noBrowser bool
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "login SERVER", Short: "Log in to a server", Args: args(oneArg),
		Long: `Log in to a remote server. The address of its authorization server is printed and
opened in a browser; what that answers comes back to a port of this machine. Where the
browser is on another machine, copy the address there, and paste the one to which it
is sent afterwards (http://127.0.0.1:…, which it cannot open) here. With --no-browser
that is also read from a pipe.

A server that is configured with "grant": "client_credentials" is logged in to without
anybody.`,
		Example: `  metamcp auth login linear
  metamcp auth login linear --no-browser`,
		RunE: func(cmd *cobra.Command, given []string) error {
			m, cfg, err := c.logins()
			if err != nil {
				return err
			}
			defer m.Close()
			client, err := c.loginClient(m, cfg, given[0])
			if err != nil {
				return err
			}
			return interruptible(cmd.Context(), "nobody is logged in", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, patience)
				defer cancel()
				return login(ctx, cmd, client, given[0], noBrowser)
			})
		},
	}
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address only, to be opened elsewhere")
	cmd.Flags().DurationVar(&patience, "timeout", 10*time.Minute, "how long to wait for the browser")
	return cmd
}

func login(ctx context.Context, cmd *cobra.Command, client *oauth.Client, name string, noBrowser bool) error {
	stderr := cmd.ErrOrStderr()
	in, open := cmd.InOrStdin().(*os.File)
	terminal := open && term.IsTerminal(int(in.Fd()))
	person := oauth.Person{
		Visit: func(address string) {
			fmt.Fprintf(cmd.OutOrStdout(), "Open this address in a browser to log in to %s:\n\n  %s\n\n", printable(name), printable(address))
			if !noBrowser {
				openBrowser(ctx, address)
			}
			if terminal {
				fmt.Fprintln(stderr, "If the browser is on another machine, paste the address here to which it is sent then (http://127.0.0.1:…, which it cannot open).")
			}
		},
		Complain: func(why string) { fmt.Fprintln(stderr, "metamcp:", why) },
	}
	// A pipe or a file brings it as well as a person does.
	person.Pasted = pastedLines(cmd.InOrStdin())
	status, err := client.Login(ctx, person)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			return errors.New("no answer came from the browser; try again, or with a longer --timeout")
		}
		return authError(err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "logged in to %s at %s", printable(name), printable(status.Issuer))
	if len(status.Scopes) > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), ", with %s", printable(strings.Join(status.Scopes, " ")))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout())
	return err
}

// authError adds what to do.
func authError(err error) error {
	var e *oauth.Error
	if !errors.As(err, &e) {
		return err
	}
	return &messages.Error{Code: messages.CodeConnection, Class: messages.ClassAuth, Message: printable(e.Error()), Hint: printable(e.Advice)}
}

// pastedLines reads what a person pastes. The goroutine ends with a line that
// nobody takes, with the input, or with the program.
func pastedLines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		const longest = 64 << 10
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, longest)
		for scan.Scan() {
			if strings.TrimSpace(scan.Text()) != "" {
				lines <- scan.Text()
			}
		}
	}()
	return lines
}

// openBrowser asks the system to open an address. Nobody waits: the address is
// printed as well, and a person sees whether something opened.
func openBrowser(ctx context.Context, address string) {
	var cmd *osexec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = osexec.CommandContext(ctx, "open", address)
	case "windows":
		cmd = osexec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", address)
	default:
		cmd = osexec.CommandContext(ctx, "xdg-open", address)
	}
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }() // it is killed with ctx, when the login is over
	}
}

func newAuthStatus(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status [SERVER…]", Short: "Show where somebody is logged in",
		Long: `Show which remote servers somebody is logged in to, where, with which scopes and for
how long; nobody is asked, and no token is shown. "renewed" means that a new token comes
by itself, "wanted" that the server has asked for a login.`,
		Example: `  metamcp auth status
  metamcp auth status linear --json`,
		RunE: func(cmd *cobra.Command, given []string) error {
			m, cfg, err := c.logins()
			if err != nil {
				return err
			}
			defer m.Close()
			list := []*oauth.Status{}
			var broken []string
			for _, spec := range cfg.Servers {
				if len(given) == 0 && spec.Err != nil {
					broken = append(broken, printable(spec.Name))
				}
				if len(given) == 0 && (spec.Err != nil || spec.Transport == messages.TransportStdio || spec.HasAuthorization()) {
					continue
				}
				if len(given) > 0 && !slices.Contains(given, spec.Name) {
					continue
				}
				client, err := c.loginClient(m, cfg, spec.Name)
				if err != nil {
					return err
				}
				s, err := client.Status()
				if err != nil {
					return authError(err)
				}
				list = append(list, s)
			}
			for _, name := range given {
				if _, err := serverOf(cfg, name); err != nil {
					return err
				}
			}
			if len(broken) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "metamcp: nothing is said of %s: what the configuration has of them cannot be used; metamcp list says why\n", strings.Join(broken, ", "))
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), list)
			}
			return printLogins(cmd.OutOrStdout(), list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printLogins(out io.Writer, list []*oauth.Status) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "there is no remote server that could be logged in to")
		return err
	}
	t := table{width: terminalWidth(out)}
	t.row("SERVER", "LOGIN", "AT", "TOKEN UNTIL", "SCOPES")
	for _, s := range list {
		until := "-"
		switch {
		case s.Expires != nil:
			until = clock(*s.Expires)
		case s.Issuer != "":
			until = "not said"
		}
		if s.Renewed {
			until += ", renewed"
		}
		at, scopes := s.Issuer, strings.Join(s.Scopes, " ")
		if at == "" {
			at = "-"
		}
		if len(s.Wants) > 0 {
			scopes = strings.TrimSpace(scopes + " (wanted: " + strings.Join(s.Wants, " ") + ")")
		}
		t.row(printable(s.Server), s.State, printable(at), until, printable(scopes))
	}
	return t.print(out)
}

func newAuthLogout(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "logout SERVER…", Short: "Forget logins", Args: args(someArgs),
		Long: `Forget the tokens of servers, and how metamcp is registered there. The authorization
server is told to take the tokens back where it offers that.`,
		Example: "  metamcp auth logout linear",
		RunE: func(cmd *cobra.Command, given []string) error {
			m, cfg, err := c.logins()
			if err != nil {
				return err
			}
			defer m.Close()
			all := make([]*oauth.Client, len(given))
			for i, name := range given { // all or none
				if all[i], err = c.loginClient(m, cfg, name); err != nil {
					return err
				}
			}
			for i, name := range given {
				client := all[i]
				had, told, err := client.Logout(cmd.Context())
				switch {
				case err != nil:
					return authError(err)
				case !had:
					fmt.Fprintf(cmd.OutOrStdout(), "nobody was logged in to %s\n", printable(name))
				case told:
					fmt.Fprintf(cmd.OutOrStdout(), "logged out of %s; its tokens are taken back\n", printable(name))
				default:
					fmt.Fprintf(cmd.OutOrStdout(), "logged out of %s; its tokens are forgotten here, and its authorization server was not told\n", printable(name))
				}
			}
			return nil
		},
	}
}
