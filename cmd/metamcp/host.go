package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

const (
	// startPatience is how long a host may take until it serves.
	startPatience = 60 * time.Second
	startLook     = 10 * time.Millisecond
)

func newHost(c *common) *cobra.Command {
	f := &hostFlags{}
	cmd := &cobra.Command{
		Use: "host", Short: "Run one host that all clients share",
		Long: `Run the host that clients share: each client's metamcp attaches to it instead of
starting servers of its own. There is one for a state folder and a configuration.
Without a command it runs here until Ctrl-C; start runs it in the background.

Exit status: 0 done, 1 it could not be done (status, stop: no host runs), 2 wrong usage.`,
		Example: `  metamcp host start
  metamcp host status
  metamcp host start --http :8090
  metamcp host restart
  metamcp host install`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runHost(cmd.Context(), c, f) },
	}
	cmd.PersistentFlags().StringVar(&c.name, "name", "", `what "metamcp status" and others call this host (default: main)`)
	cmd.PersistentFlags().StringVar(&c.web, "web", "", "show the host in a browser: `address` such as :7777 or 127.0.0.1:7777; the link is in its log")
	cmd.PersistentFlags().StringVar(&c.http, "http", "", "serve clients over HTTP too: `address` such as :8090 or 127.0.0.1:8090 (default: http.address of the configuration; none: not at all)")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "take the place of the host that runs, which ends when its calls are answered")
	cmd.Flags().StringVar(&f.logFile, "log-file", "", "write the log to this `file`, which turns over when it is large")
	cmd.AddCommand(newHostStart(c), newHostStop(c), newHostRestart(c), newHostStatus(c), newHostInstall(c), newHostUninstall(c))
	return cmd
}

func newHostStart(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "start", Short: "Start the host in the background, and wait until it serves",
		Example: `  metamcp host start
  metamcp host start --config ~/project/.mcp.json --pool-size 50`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.hostConfig()
			if err != nil {
				return err
			}
			if info := livingHost(cfg); info != nil {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "the host %s runs already (pid %d)\n", oneLine(info.Name), info.PID)
				return err
			}
			return c.startHost(cmd, cfg, false)
		},
	}
}

func newHostStop(c *common) *cobra.Command {
	now := false
	cmd := &cobra.Command{
		Use: "stop", Short: "End the host that runs for this configuration",
		Long: `End the host. Calls in flight are answered first, for as long as drainTimeoutMs
says; --now does not wait for them. Clients stay, and go on when a host runs again.`,
		Example: `  metamcp host stop
  metamcp host stop --now`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.hostConfig()
			if err != nil {
				return err
			}
			info, err := stopHost(cmd.Context(), attach.Find(cfg.Settings.StateDir, cfg.Files), now)
			if err == nil && info == nil {
				err = noSharedHost()
			}
			if err != nil {
				return err
			}
			if err := awaitEnd(cmd.Context(), info, cfg.Settings.DrainTimeout); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the host %s (pid %d) has ended\n", oneLine(info.Name), info.PID)
			return err
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "do not wait for calls in flight")
	return cmd
}

func newHostRestart(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "restart", Short: "Replace the host by a new one, also of a new version, without loss",
		Long: `Start a new host, and let the one that runs end. The new one takes over when it
is ready; if it cannot start, the old one goes on. Clients stay attached: calls in
flight are answered by the old host, new ones go to the new. So do those over HTTP,
at the same address, unless --http names another. Where no host runs, one is
started.`,
		Example: `  metamcp host restart`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.hostConfig()
			if err != nil {
				return err
			}
			info := livingHost(cfg)
			if info != nil && info.Manager != "" {
				how := "launchctl kickstart -k gui/" + strconv.Itoa(os.Getuid()) + "/" + launchdLabel
				if info.Manager == "systemd" {
					how = "systemctl --user restart " + systemdUnit
				}
				return fmt.Errorf("the host %s (pid %d) is kept by %s, which would start another one: use %s", oneLine(info.Name), info.PID, info.Manager, how)
			}
			if err := keepHTTP(cmd, info); err != nil {
				return err
			}
			return c.startHost(cmd, cfg, info != nil)
		},
	}
}

func newHostStatus(c *common) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "status", Short: "Show whether a host runs for this configuration, and who is attached",
		Example: `  metamcp host status
  metamcp host status --json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.hostConfig()
			if err != nil {
				return err
			}
			info := livingHost(cfg)
			if info == nil {
				return noSharedHost()
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
			defer cancel()
			st, err := askHost(ctx, *info)
			if err != nil {
				return hostError(err, *info)
			}
			return printHost(cmd.OutOrStdout(), info, st, hostLog(cfg), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printHost(out io.Writer, info *control.HostInfo, st *messages.HostStatus, log string, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(shown(out))
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			*control.HostInfo
			Draining bool                    `json:"draining"`
			Clients  []messages.ClientStatus `json:"clients"`
			Log      string                  `json:"log"`
		}{info, st.Draining, append([]messages.ClientStatus{}, st.Clients...), log})
	}
	t := table{width: terminalWidth(out)}
	t.row("host", fmt.Sprintf("%s (pid %d, metamcp %s), up %s", oneLine(info.Name), info.PID, oneLine(info.Version), age(st.At.Sub(st.Started))))
	for _, f := range info.Configs {
		t.row("config", oneLine(f))
	}
	if info.Manager != "" {
		t.row("kept by", oneLine(info.Manager))
	}
	t.row("socket", oneLine(info.Socket))
	if info.HTTP != "" {
		t.row("http", oneLine(info.HTTP))
	}
	if _, err := os.Stat(log); err == nil {
		t.row("log", oneLine(log))
	}
	t.row("clients", strconv.Itoa(len(st.Clients)))
	for _, cl := range st.Clients {
		name := strings.TrimSpace(cl.Name + " " + cl.Version)
		if name == "" {
			name = "a client that has not said its name"
		}
		where := "over HTTP"
		if cl.PID != 0 {
			where = fmt.Sprintf("pid %d", cl.PID)
		}
		t.row("", fmt.Sprintf("%s (%s), for %s", oneLine(name), where, age(st.At.Sub(cl.Since))))
	}
	return t.print(shown(out))
}

// hostConfig is the configuration that names the host.
func (c *common) hostConfig() (*config.Config, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil, err
	}
	if cfg.Settings.StateDir == "" {
		return nil, errors.New("a host needs a state folder, and none is known; name one with --state-dir")
	}
	return cfg, nil
}

// livingHost is the shared host that runs; nil: none does.
func livingHost(cfg *config.Config) *control.HostInfo {
	for _, info := range attach.Find(cfg.Settings.StateDir, cfg.Files) {
		if client, err := control.Dial(info); err == nil {
			client.Close()
			return &info
		}
	}
	return nil
}

func noSharedHost() error {
	return &metamcp.Error{Code: messages.CodeHostAway, Message: "no host runs for this configuration", Hint: "Start one with `metamcp host start`."}
}

// hostLog is the log of a host in the background.
func hostLog(cfg *config.Config) string {
	return filepath.Join(cfg.Settings.StateDir, "logs", "hosts", attach.Key(cfg.Files)+".log")
}

// startHost starts a host that outlives this process.
func (c *common) startHost(cmd *cobra.Command, cfg *config.Config, replace bool) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log := hostLog(cfg)
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return fmt.Errorf("the folder of the host's log: %w", err)
	}
	// What the Go runtime itself says, should it break, passes no logger.
	stderr, err := os.OpenFile(strings.TrimSuffix(log, ".log")+".err", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = stderr.Close() }() // the host has its own
	words := append([]string{"host", "--log-file", log}, c.hostArguments(cmd, cfg)...)
	if replace {
		words = append(words, "--replace")
	}
	host := osexec.Command(program, words...) //nolint:noctx // it outlives this process, and is this program
	host.Stderr, host.Stdout = stderr, stderr
	detach(host)
	if err := host.Start(); err != nil {
		return fmt.Errorf("start the host: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Wait() }() // ends with the host, or with this process
	info, err := awaitHost(cmd.Context(), cfg, host.Process.Pid, ended)
	if err != nil {
		if other := livingHost(cfg); other != nil && !replace {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the host %s runs already (pid %d): it was started at the same time\n", oneLine(other.Name), other.PID)
			return err
		}
		return fmt.Errorf("the host did not start: %w\n%s", err, lastLines(log, stderr.Name()))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the host %s runs (pid %d); its log is %s\n", oneLine(info.Name), info.PID, log)
	return err
}

// hostArguments are the flags that this command was given, for the host.
func (c *common) hostArguments(cmd *cobra.Command, cfg *config.Config) (words []string) {
	for _, f := range cfg.Files {
		words = append(words, "--config", f)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "dry-run" {
			words = append(words, "--"+f.Name+"="+f.Value.String())
		}
	})
	return words
}

// awaitHost waits until a process serves as host.
func awaitHost(ctx context.Context, cfg *config.Config, pid int, ended <-chan error) (*control.HostInfo, error) {
	deadline := time.After(startPatience)
	tick := time.NewTicker(startLook)
	defer tick.Stop()
	for {
		for _, info := range attach.Find(cfg.Settings.StateDir, cfg.Files) {
			if info.PID != pid {
				continue
			}
			if client, err := control.Dial(info); err == nil {
				client.Close()
				return &info, nil
			}
		}
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("exit status 0")
			}
			return nil, fmt.Errorf("its process ended: %w", err)
		case <-deadline:
			return nil, fmt.Errorf("the process %d does not serve after %v", pid, startPatience)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// awaitEnd waits until a host that was asked to end has ended.
func awaitEnd(ctx context.Context, info *control.HostInfo, drain time.Duration) error {
	limit := drain + endTimeout
	deadline := time.After(limit)
	tick := time.NewTicker(startLook)
	defer tick.Stop()
	for alive(info.PID) {
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("the host %s (pid %d) let go of its place and has not ended after %v", info.Name, info.PID, limit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// lastLines are the ends of files, for who wants to know why a host ended.
func lastLines(paths ...string) string {
	const most = 2000
	var text strings.Builder
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if info, err := f.Stat(); err == nil && info.Size() > most {
			_, _ = f.Seek(-most, io.SeekEnd) // the beginning is shown then
		}
		part, _ := io.ReadAll(io.LimitReader(f, most)) // what can be read is shown
		_ = f.Close()
		text.Write(part)
	}
	return strings.TrimSpace(text.String())
}
