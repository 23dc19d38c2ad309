package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/messages"
)

const (
	systemdUnit  = "metamcp.service"
	launchdLabel = "dev.metamcp.host"
)

// unit is what keeps a host running: a file for systemd or launchd, and how it
// is put in force.
type unit struct {
	path, text   string
	start, leave []string // commands for the user
}

const systemdText = `[Unit]
Description=metamcp: one MCP host for all clients
Documentation=https://github.com/metamcp/metamcp
StartLimitIntervalSec=60
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
ExecStart={{range $i, $w := .Words}}{{if $i}} {{end}}{{systemd $w}}{{end}}
WatchdogSec=30
Restart=on-failure
RestartSec=1
TimeoutStopSec={{.Stop}}
KillMode=mixed
Delegate=memory pids
Environment=METAMCP_DELEGATED=1

[Install]
WantedBy=default.target
`

const launchdText = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key>
	<string>{{.Label}}</string>
	<key>ProgramArguments</key>
	<array>
{{- range .Words}}
		<string>{{xml .}}</string>
{{- end}}
	</array>
	<key>RunAtLoad</key>
	<true/>
	<key>KeepAlive</key>
	<dict>
		<key>SuccessfulExit</key>
		<false/>
	</dict>
	<key>ExitTimeOut</key>
	<integer>{{.Stop}}</integer>
</dict>
</plist>
`

// stopTime is what the manager of a system leaves a host to end, before it kills it.
func stopTime(cfg *config.Config) time.Duration {
	const beyond = 25 * time.Second // so that the host ends by itself
	return cfg.Settings.DrainTimeout + endTime(metamcp.EndTime(cfg)) + beyond
}

// makeUnit describes the host of a configuration to the manager of a system.
func makeUnit(goos, home, configHome string, words []string, stop time.Duration) (*unit, error) {
	u := &unit{}
	text := launchdText
	switch goos {
	case "linux":
		text = systemdText
		if configHome == "" {
			configHome = filepath.Join(home, ".config")
		}
		u.path = filepath.Join(configHome, "systemd", "user", systemdUnit)
		u.start = []string{"systemctl --user daemon-reload", "systemctl --user enable --now " + systemdUnit}
		u.leave = []string{"systemctl --user disable --now " + systemdUnit}
	case "darwin":
		u.path = filepath.Join(home, "Library", "LaunchAgents", launchdLabel+".plist")
		domain := "gui/" + strconv.Itoa(os.Getuid())
		u.start = []string{"launchctl bootstrap " + domain + " " + messages.ShellWord(u.path)}
		u.leave = []string{"launchctl bootout " + domain + "/" + launchdLabel}
	default:
		return nil, fmt.Errorf("there is no unit file for %s; use the system's own way to start %s at login", goos, strings.Join(words, " "))
	}
	t, err := template.New("unit").Funcs(template.FuncMap{"systemd": systemdWord, "xml": xmlText}).Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, map[string]any{"Words": words, "Label": launchdLabel, "Stop": int(math.Ceil(stop.Seconds()))}); err != nil {
		return nil, err
	}
	u.text = b.String()
	return u, nil
}

// systemdWord writes a word of a command line as systemd reads it.
func systemdWord(word string) string {
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(word)
	return `"` + word + `"`
}

func xmlText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// hostUnit is the unit for what this command was called with.
func (c *common) hostUnit(cmd *cobra.Command) (*unit, error) {
	cfg, err := c.hostConfig()
	if err != nil {
		return nil, err
	}
	program, err := ownPath()
	if err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	words := []string{program, "host"}
	if runtime.GOOS != "linux" { // systemd keeps the log itself
		words = append(words, "--log-file", hostLog(cfg))
	}
	return makeUnit(runtime.GOOS, home, os.Getenv("XDG_CONFIG_HOME"), append(words, c.hostArguments(cmd, cfg)...), stopTime(cfg))
}

// install writes the file and says what was done. Where there is another one it is
// kept beside it, and replaced only where that was asked for.
func (u *unit) install(replace bool) (how string, err error) {
	const most = 1 << 20
	before, _, err := regular.Read(u.path, most)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		how = "is written"
	case err != nil:
		return "", err
	case string(before) == u.text:
		return "is there already, as it would be written now", nil
	case !replace:
		return "", fmt.Errorf("%s is there and says something else: it is for another configuration or other flags, or was edited; --replace replaces it and keeps it as %s.bak", u.path, u.path)
	default:
		if err := atomicfile.Write(u.path+".bak", before, 0o644); err != nil {
			return "", err
		}
		how = "is replaced, the one before is " + u.path + ".bak"
	}
	if err := os.MkdirAll(filepath.Dir(u.path), 0o755); err != nil { //nolint:gosec // as the manager's own tools make it
		return "", err
	}
	return how, atomicfile.Write(u.path, []byte(u.text), 0o644)
}

func newHostInstall(c *common) *cobra.Command {
	dry, replace := false, false
	cmd := &cobra.Command{
		Use: "install", Short: "Let systemd or launchd start the host at login and keep it running",
		Long: `Write a unit file for this user: for systemd on Linux, for launchd on macOS. It
starts this program with the configuration and the flags that this command gets.
Variables of this shell are not part of it: what servers need belongs into their
entries, or into metamcp secrets. There is one such file. One that says something
else, for another configuration or edited by hand, is replaced with --replace only,
and kept beside the new one.`,
		Example: `  metamcp host install --dry-run
  metamcp host install --config ~/.metamcp/mcp.json`,
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := c.hostUnit(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if dry {
				_, err := fmt.Fprintf(out, "# %s\n%s", u.path, u.text)
				return err
			}
			how, err := u.install(replace)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s %s; start it with:\n  %s\n", u.path, how, strings.Join(u.start, "\n  "))
			return err
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the file instead of writing it")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace a file that says something else, which is kept as FILE.bak")
	return cmd
}

func newHostUninstall(c *common) *cobra.Command {
	dry := false
	cmd := &cobra.Command{
		Use: "uninstall", Short: "Remove what host install wrote",
		Example: `  metamcp host uninstall`,
		Args:    args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			u, err := c.hostUnit(cmd)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if _, err := os.Stat(u.path); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("there is no %s; nothing was removed", u.path)
			}
			what := "is removed; if it still runs, end it with"
			if dry {
				what = "would be removed; the host would be ended with"
			} else if err := os.Remove(u.path); err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s %s:\n  %s\n", u.path, what, strings.Join(u.leave, "\n  "))
			return err
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed")
	return cmd
}
