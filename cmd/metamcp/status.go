package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

const (
	// askTime is how long a host may take to answer a command.
	askTime = 10 * time.Second
	// watchEvery is how often --watch looks.
	watchEvery = time.Second
)

func newStatus(c *common) *cobra.Command {
	var asJSON, again bool
	cmd := &cobra.Command{
		Use: "status [HOST]", Short: "Show a running host: pool, servers, breakers and calls",
		Example: `  metamcp status
  metamcp status work --watch`,
		Long: `Show a running host. HOST is its name or process id, as metamcp ps lists them; it
may be left out where only one host runs with this state folder, or one of them is
the one that clients of this configuration share.

Exit status: 0 shown; 1 there is no such host, or it does not answer; 2 wrong
usage, which includes that several hosts run and none was chosen.`,
		Args: args(maybeArg),
		RunE: func(cmd *cobra.Command, given []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			host, err := c.dialHost(first(given))
			if err != nil {
				return err
			}
			defer host.Close()
			if again {
				return watchStatus(ctx, cmd.OutOrStdout(), host, asJSON)
			}
			return showStatus(ctx, cmd.OutOrStdout(), host, asJSON, false)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON; with --watch one line each time")
	cmd.Flags().BoolVar(&again, "watch", false, "show it every second until interrupted")
	return cmd
}

func first(given []string) string {
	if len(given) == 0 {
		return ""
	}
	return given[0]
}

// stateDir returns the folder in which hosts are looked for. A configuration
// that is broken by now does not hide a host that runs: flags, variables and
// the default still name the folder.
func (c *common) stateDir() (string, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		var wrong error
		if cfg, wrong = c.withoutFiles(); wrong != nil {
			return "", err
		}
		c.goOnWithout(err, fmt.Sprintf("looking in %s (--state-dir names another folder)", cfg.Settings.StateDir))
	}
	if cfg.Settings.StateDir == "" {
		return "", errors.New("no state folder is known, so no host can be found; name one with --state-dir")
	}
	return cfg.Settings.StateDir, nil
}

// goOnWithout says what a command does that needs no configuration, where the error is
// why there is none.
func (c *common) goOnWithout(err error, then string) {
	fmt.Fprintf(c.stderr, "metamcp: %v; %s\n", err, then)
	var e *metamcp.Error
	if errors.As(err, &e) && e.Hint != "" {
		fmt.Fprintln(c.stderr, "hint:", shellHint(e.Hint, e.Server, e.Tool))
	}
}

// withoutFiles is the configuration that flags and variables make. The error says
// which of these is wrong.
func (c *common) withoutFiles() (*config.Config, error) {
	f, err := os.CreateTemp("", "metamcp-*.json")
	if err != nil {
		return nil, fmt.Errorf("make an empty configuration: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString("{}")
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("make an empty configuration: %w", err)
	}
	return config.Load(config.Sources{Files: []string{f.Name()}, Overlay: c.overlay})
}

// dialHost connects with a running host by name or process id; where none is named
// and several run, with the one that clients of this configuration share.
func (c *common) dialHost(nameOrPID string) (*control.Client, error) {
	dir, err := c.stateDir()
	if err != nil {
		return nil, err
	}
	info, err := control.Find(dir, nameOrPID)
	var e *control.Error
	if errors.As(err, &e) && e.Code == control.CodeSeveralHosts {
		own := (&hostPlace{stateDir: dir, files: c.fileNames()}).announced()
		if len(own) != 1 {
			return nil, usageError{err}
		}
		info, err = own[0], nil
	}
	if err != nil {
		return nil, err
	}
	return control.Dial(info)
}

// fileNames are the files of this command's configuration.
func (c *common) fileNames() []string {
	files, _ := config.FilesOf(c.sources())
	return files
}

// watchStatus shows a host until it is interrupted, which is the way to end
// it, or until the host has gone.
func watchStatus(ctx context.Context, out io.Writer, host *control.Client, asJSON bool) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := showStatus(ctx, out, host, asJSON, true); err != nil {
			if ctx.Err() != nil {
				return nil // interrupted while the host was asked
			}
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func showStatus(parent context.Context, out io.Writer, host *control.Client, asJSON, again bool) error {
	ctx, cancel := context.WithTimeout(parent, askTime)
	defer cancel()
	st, err := host.Status(ctx, false)
	if err != nil {
		return hostError(err, host.Info())
	}
	if asJSON {
		enc := json.NewEncoder(shown(out))
		if !again {
			enc.SetIndent("", "  ")
		}
		return enc.Encode(st)
	}
	var text strings.Builder
	width := terminalWidth(out)
	if again && width > 0 {
		text.WriteString("\x1b[H\x1b[2J") // the top of an empty screen
	}
	if err := printStatus(&text, st, time.Now(), look{width: width, colours: width > 0 && os.Getenv("NO_COLOR") == ""}); err != nil {
		return err
	}
	if again && width == 0 {
		text.WriteString("\n")
	}
	_, err = io.WriteString(out, text.String())
	return err
}

// hostError says which host was too slow.
func hostError(err error, info control.HostInfo) error {
	hangs := &attach.HangsError{Host: info}
	if errors.As(err, &hangs) || info.PID != 0 && errors.Is(err, context.DeadlineExceeded) {
		return &metamcp.Error{Code: messages.CodeHostAway, Message: hangs.Error(), Hint: attach.HangsHint, Cause: err}
	}
	return err
}

// look says how a table is shown.
type look struct {
	width   int // of the terminal; 0: none
	colours bool
}

// The colours of a cell, all of one length: a column in which every cell has
// one stays aligned.
const (
	plainInk  = "\x1b[39m"
	redInk    = "\x1b[31m"
	greenInk  = "\x1b[32m"
	yellowInk = "\x1b[33m"
)

// ink colours a cell.
func (l look) ink(colour, cell string) string {
	if !l.colours {
		return cell
	}
	return colour + cell + plainInk
}

// table returns an empty table in which so many columns have colours.
func (l look) table(coloured int) table {
	if l.width == 0 {
		return table{}
	}
	if l.colours {
		return table{width: l.width + coloured*2*len(plainInk)}
	}
	return table{width: l.width}
}

func printStatus(out io.Writer, st *messages.HostStatus, now time.Time, l look) error {
	head := l.table(0)
	title := fmt.Sprintf("%s (pid %d, metamcp %s), up %s", oneLine(st.Name), st.PID, oneLine(st.Version), age(now.Sub(st.Started)))
	if st.Draining {
		title += ", draining"
	}
	head.row("host", title)
	for _, c := range st.Configs {
		head.row("config", oneLine(c))
	}
	if st.ConfigProblem != "" {
		head.row("problem", "the configuration from before stays in force: "+oneLine(st.ConfigProblem))
	}
	if st.HTTP != "" {
		head.row("http", oneLine(st.HTTP))
	}
	p := st.Pool
	pool := fmt.Sprintf("%d of %d places, %d idle, %d of %d waiting, %d evicted", p.Used, p.Size, p.Idle, p.Waiters, p.MaxWaiters, p.Evictions)
	if n := beingEnded(st.Servers); n > 0 {
		pool += fmt.Sprintf(", %d being ended", n)
	}
	if p.Reserve > 0 {
		pool += fmt.Sprintf(", reserve %d of %d", p.ReserveUsed, p.Reserve)
	}
	head.row("pool", pool)
	head.row("calls", fmt.Sprintf("%d in flight, %d since the start, %d failed, %s", st.Calls.InFlight, st.Calls.Total, st.Calls.Failed,
		counted(st.Calls.ToolErrors, "tool error", "tool errors")))
	if sb := st.Sandbox; sb.Runs > 0 || sb.Running > 0 || sb.Waiting > 0 {
		head.row("scripts", fmt.Sprintf("%d running, %d waiting, %d since the start, %d failed", sb.Running, sb.Waiting, sb.Runs, sb.Failed))
	}
	if pv := st.Provision; len(pv.Installing) > 0 {
		names := make([]string, len(pv.Installing))
		for i, name := range pv.Installing {
			names[i] = oneLine(name)
		}
		head.row("installing", strings.Join(names, ", "))
	}
	if st.AuditProblem != "" {
		head.row("audit", "calls are not recorded: "+oneLine(st.AuditProblem))
	}
	head.row("sessions", strconv.Itoa(st.Sessions))
	if st.DescriptorLimit > 0 {
		head.row("descriptors", fmt.Sprintf("%d of %d open", st.Descriptors, st.DescriptorLimit))
	}
	for i := range st.Servers {
		if s := &st.Servers[i]; s.Provisioned != "" {
			head.row("provisioned", oneLine(s.Name)+" from "+oneLine(s.Provisioned))
		}
	}
	if err := head.print(out); err != nil {
		return err
	}
	if len(st.Servers) == 0 {
		_, err := fmt.Fprintln(out, "\nno servers are configured")
		return err
	}
	fmt.Fprintln(out)
	t := l.table(2)
	t.row("SERVER", l.ink(plainInk, "STATE"), l.ink(plainInk, "BREAKER"), "TOOLS", "CONNECTIONS", "IN FLIGHT", "PROBLEM")
	for i := range st.Servers {
		s := &st.Servers[i]
		inFlight := 0
		for _, in := range s.Instances {
			inFlight += in.InFlight
		}
		t.row(oneLine(s.Name), l.state(s), l.breaker(s.Breaker), toolCount(s), connections(s), strconv.Itoa(inFlight), problem(s, now))
	}
	return t.print(out)
}

// state is a server's state for people, in colour.
func (l look) state(s *messages.HostServer) string {
	colours := map[string]string{"failed": redInk, "active": greenInk, "connecting": yellowInk}
	word := hostState(s)
	return l.ink(cmp.Or(colours[word], plainInk), word)
}

func (l look) breaker(state string) string {
	switch state {
	case "open":
		return l.ink(redInk, state)
	case "half-open":
		return l.ink(yellowInk, state)
	}
	return l.ink(plainInk, oneLine(state))
}

// problem says why a server fails, of what class that is, and when it is tried
// again.
func problem(s *messages.HostServer, now time.Time) string {
	if s.Error == nil {
		return pinProblem(s)
	}
	var text string
	if s.Error.Class != messages.ClassNone {
		text = "[" + oneLine(string(s.Error.Class)) + "] "
	}
	text += oneLine(s.Error.Message)
	if s.Failures > 1 {
		text = fmt.Sprintf("%d× %s", s.Failures, text)
	}
	again := "with the next call"
	if left := s.RetryAt.Sub(now); !s.RetryAt.IsZero() && left > 0 {
		again = "in " + age(left)
	}
	if s.Breaker != "closed" || !s.RetryAt.IsZero() {
		// In front, since the end of a long line is cut.
		text = "again " + again + ": " + text
	}
	return text
}

// pinProblem says what a person should look at in a server that works.
func pinProblem(s *messages.HostServer) string {
	var parts []string
	switch {
	case s.Held > 0:
		parts = append(parts, fmt.Sprintf("%d held back: metamcp pins diff %s", s.Held, messages.ShellWord(oneLine(s.Name))))
	case s.Changed > 0:
		parts = append(parts, fmt.Sprintf("%d changed: metamcp pins diff %s", s.Changed, messages.ShellWord(oneLine(s.Name))))
	}
	if s.Suspicious > 0 {
		parts = append(parts, fmt.Sprintf("%d with suspicious texts: metamcp pins list %s", s.Suspicious, messages.ShellWord(oneLine(s.Name))))
	}
	if parts == nil {
		return ""
	}
	return "of its tools " + strings.Join(parts, "; ")
}

// age is a duration for people, in its two largest units.
func age(d time.Duration) string {
	s := int64(max(0, d).Round(time.Second) / time.Second)
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	switch {
	case s < minute:
		return fmt.Sprintf("%ds", s)
	case s < hour:
		return fmt.Sprintf("%dm%ds", s/minute, s%minute)
	case s < day:
		return fmt.Sprintf("%dh%dm", s/hour, s%hour/minute)
	}
	return fmt.Sprintf("%dd%dh", s/day, s%day/hour)
}

// oneLine makes text of others fit for one cell: no breaks, and nothing that a
// terminal would obey.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '�'
		}
		return r
	}, text)
}
