package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/integration/regular"
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
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.words = hostFlagWords(cmd)
			return runHost(cmd.Context(), c, f)
		},
	}
	cmd.PersistentFlags().StringVar(&c.name, "name", "", `what "metamcp status" and others call this host (default: main)`)
	cmd.PersistentFlags().StringVar(&c.web, "web", "", "show the host in a browser: `address` such as :7777 or 127.0.0.1:7777; the link is in its log")
	cmd.PersistentFlags().StringVar(&c.http, "http", "", "serve clients over HTTP too: `address` such as :8090 or 127.0.0.1:8090 (default: http.address of the configuration; none: not at all)")
	cmd.Flags().BoolVar(&f.replace, "replace", false, "take the place of the host that runs, which ends when its calls are answered")
	cmd.Flags().IntVar(&f.recovered, "recovered", 0, "how many hosts before this one, in a row, found themselves damaged")
	_ = cmd.Flags().MarkHidden("recovered") // it is there; hosts alone give it
	cmd.Flags().StringVar(&f.logFile, "log-file", "", "write the log to this `file`, which turns over when it is large")
	cmd.AddCommand(newHostStart(c), newHostStop(c), newHostRestart(c), newHostStatus(c), newHostInstall(c), newHostUninstall(c))
	return cmd
}

func newHostStart(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "start", Short: "Start the host in the background, and wait until it serves",
		Example: `  metamcp host start
  metamcp host start --config ~/project/.mcp.json --pool-size 50`,
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.hostConfig()
			if err != nil {
				return err
			}
			info, err := hostOf(cfg).living(cmd.Context())
			if err != nil {
				return hostError(err, control.HostInfo{})
			}
			if info != nil {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "the host %s runs already (pid %d)\n", oneLine(info.Name), info.PID)
				if other := newFlags(cmd, info); len(other) > 0 {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "it was started without %s; metamcp host restart with the same words starts it anew with them\n", oneLine(strings.Join(other, " ")))
				}
				return err
			}
			return c.startHost(cmd, cfg, nil, nil)
		},
	}
}

func newHostRestart(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "restart", Short: "Replace the host by a new one, also of a new version, without loss",
		Long: `Start a new host, and let the one that runs end. The new one takes over when it
is ready; if it cannot start, the old one goes on. Clients stay attached: calls in
flight are answered by the old host, new ones go to the new. So do those over HTTP,
at the same address, unless --http names another. What takes longer than
drainTimeoutMs (5 s) is ended, and its client told. The new host gets the flags of the
old one, save those that this command is given, also where that one was killed. Where
no host runs, one is started.`,
		Example: `  metamcp host restart`,
		Args:    args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.hostConfig()
			if err != nil {
				return err
			}
			info, err := hostOf(cfg).living(cmd.Context())
			if err != nil {
				return hostError(err, control.HostInfo{})
			}
			if info != nil && info.Manager != "" {
				how := "launchctl kickstart -k gui/" + strconv.Itoa(os.Getuid()) + "/" + launchdLabel
				if info.Manager == "systemd" {
					how = "systemctl --user restart " + systemdUnit
				}
				return fmt.Errorf("the host %s (pid %d) is kept by %s, which would start another one: use %s", oneLine(info.Name), info.PID, info.Manager, how)
			}
			flagsOf := info
			if killed := attach.Find(cfg.Settings.StateDir, cfg.Files); info == nil && len(killed) > 0 {
				flagsOf = &killed[0]
			}
			return c.startHost(cmd, cfg, info, flagsOf)
		},
	}
}

func newHostStatus(c *common) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "status", Short: "Show whether a host runs for this configuration, and who is attached",
		Example: `  metamcp host status
  metamcp host status --json`,
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := c.hostPlace()
			if err != nil {
				return err
			}
			info, err := p.living(cmd.Context())
			if err == nil && info == nil {
				err = p.none("")
			}
			if err != nil {
				return hostError(err, control.HostInfo{})
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), askTime)
			defer cancel()
			st, err := askHost(ctx, *info)
			if err != nil {
				return hostError(err, *info)
			}
			return printHost(cmd.OutOrStdout(), info, st, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printHost(out io.Writer, info *control.HostInfo, st *messages.HostStatus, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(shown(out))
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			*control.HostInfo
			Draining bool                    `json:"draining"`
			Clients  []messages.ClientStatus `json:"clients"`
		}{info, st.Draining, append([]messages.ClientStatus{}, st.Clients...)})
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
	if info.Log != "" {
		t.row("log", oneLine(info.Log))
	}
	if len(info.Flags) > 0 {
		t.row("flags", oneLine(strings.Join(info.Flags, " ")))
	}
	t.row("clients", strconv.Itoa(len(st.Clients)))
	for _, cl := range st.Clients {
		name := cl.Name
		if name == "" {
			name = "a client that has not said its name"
		}
		where := "over HTTP"
		if cl.PID != 0 {
			where = fmt.Sprintf("pid %d", cl.PID)
		}
		if cl.Version != "" {
			where = "version " + oneLine(cl.Version) + ", " + where
		}
		t.row("", fmt.Sprintf("%s (%s), for %s", oneLine(name), where, age(st.At.Sub(cl.Since))))
	}
	return t.print(shown(out))
}

// hostLog is the log of a host in the background.
func hostLog(cfg *config.Config) string {
	return filepath.Join(cfg.Settings.StateDir, "logs", "hosts", attach.Key(cfg.Files)+".log")
}

// startHost starts a host that outlives this process, in the place of before and with
// the flags of flagsOf, where they are not nil.
func (c *common) startHost(cmd *cobra.Command, cfg *config.Config, before, flagsOf *control.HostInfo) error {
	kept, err := keepFlags(cmd, flagsOf)
	if err != nil {
		return err
	}
	if err := c.checkWeb(); err != nil {
		return err
	}
	if _, err := newHostHTTP(c.http, cfg); err != nil {
		return err
	}
	log := hostLog(cfg)
	words := append([]string{"host", "--log-file", log}, c.hostArguments(cmd, cfg)...)
	if before != nil {
		words = append(words, "--replace")
	}
	info, err := spawnHost(cmd.Context(), cfg, log, words)
	if err != nil {
		if other, _ := hostOf(cfg).living(cmd.Context()); other != nil && (before == nil || other.PID != before.PID) {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "the host %s runs already (pid %d): it was started at the same time\n", oneLine(other.Name), other.PID)
			return err
		}
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "the host %s runs (pid %d); its log is %s\n", oneLine(info.Name), info.PID, log)
	if err == nil && info.HTTP != "" {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "it serves clients over HTTP at", oneLine(info.HTTP))
	}
	if len(kept) > 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "it has the flags of the host before:", oneLine(strings.Join(kept, " ")))
	}
	return err
}

// spawnHost starts a host in the background and waits until it serves. The error
// says what its log and the Go runtime said.
func spawnHost(ctx context.Context, cfg *config.Config, log string, words []string) (*control.HostInfo, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, fmt.Errorf("the folder of the host's log: %w", err)
	}
	stderr, from, err := openErr(strings.TrimSuffix(log, ".log") + ".err")
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }() // the host has its own
	logFrom := int64(0)
	if st, err := os.Stat(log); err == nil {
		logFrom = st.Size()
	}
	host := osexec.Command(program, words...) //nolint:noctx // it outlives this process, and is this program
	host.Stderr, host.Stdout = stderr, stderr
	host.Env = outliving(os.Environ())
	detach(host)
	handedOver := keepNamed(host)
	err = host.Start()
	handedOver()
	if err != nil {
		return nil, fmt.Errorf("start the host: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Wait() }() // ends with the host, or with this process
	info, err := awaitHost(ctx, cfg, host.Process.Pid, ended)
	if err != nil {
		if _, failed := stderr.WriteString("\n"); failed != nil {
			err = fmt.Errorf("%w (nothing can be written to its log: %w)", err, failed)
		}
		return nil, fmt.Errorf("the host did not start: %w\n%s", err, lastLines(map[string]int64{log: logFrom, stderr.Name(): from}))
	}
	return info, nil
}

// outliving is an environment for a process that belongs to no one's service and to no
// server's tree: what is started from a server would end with that otherwise. Nor is it
// one of a chain of entries: it serves everybody, and its own entries begin a new one.
func outliving(environ []string) []string {
	return slices.DeleteFunc(lineage.Without(withoutManager(environ)), func(kv string) bool { return strings.HasPrefix(kv, proctree.MarkerVar+"=") })
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

// lastLines are the ends of files, from an offset, for who wants to know why a host
// ended.
func lastLines(files map[string]int64) string {
	const most = 2000
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(files)) {
		f, err := regular.Open(path, os.O_RDONLY)
		if err != nil {
			continue
		}
		from := files[path]
		if info, err := f.Stat(); err == nil {
			if from > info.Size() {
				from = 0 // it was turned over
			}
			from = max(from, info.Size()-most)
		}
		_, _ = f.Seek(from, io.SeekStart)              // the beginning is shown then
		part, _ := io.ReadAll(io.LimitReader(f, most)) // what can be read is shown
		_ = f.Close()
		text.Write(part)
	}
	return strings.TrimSpace(text.String())
}
