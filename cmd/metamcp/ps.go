package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

// listing is what ps knows of the hosts of one state folder.
type listing struct {
	Hosts    []hostLine  `json:"hosts"`
	Children []childLine `json:"children"`
}

// hostLine is one running host.
type hostLine struct {
	control.HostInfo
	RSS      int64  `json:"rssBytes,omitempty"` // 0: not known
	Children int    `json:"children"`
	Error    string `json:"error,omitempty"` // why it did not answer
}

// childLine is one connection of a host.
type childLine struct {
	Host     string    `json:"host"`
	Server   string    `json:"server"`
	Actor    string    `json:"actor"`
	PID      int       `json:"pid,omitempty"`
	State    string    `json:"state"`
	InFlight int       `json:"inFlight"`
	Since    time.Time `json:"since"`
	RSS      int64     `json:"rssBytes,omitempty"` // of the process itself; 0: not known
}

func newPs(c *common) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use: "ps", Short: "List the running hosts and their children",
		Example: `  metamcp ps
  metamcp ps --all --json`,
		Long: `List the hosts that run with this state folder, and the processes that they
started. Memory is that of the process itself, without those that it started.

Exit status: 0 listed, also where no host runs; 1 it could not be done; 2 wrong usage.`,
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			dir, err := c.stateDir()
			if err != nil {
				return err
			}
			list, err := askHosts(ctx, dir, all)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(shown(cmd.OutOrStdout()))
				enc.SetIndent("", "  ")
				return enc.Encode(list)
			}
			return printListing(shown(cmd.OutOrStdout()), list, time.Now())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&all, "all", false, "also connections without a process of their own: remote ones, and those about to start")
	return cmd
}

// askHosts asks all hosts at the same time. One that does not answer is listed
// with the reason.
func askHosts(parent context.Context, stateDir string, all bool) (*listing, error) {
	hosts, err := control.Hosts(stateDir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(parent, askTime)
	defer cancel()
	answers := make([]*messages.HostStatus, len(hosts))
	failures := make([]error, len(hosts))
	var asked sync.WaitGroup
	for i, h := range hosts {
		asked.Go(func() { answers[i], failures[i] = askHost(ctx, h) })
	}
	asked.Wait()
	if parent.Err() != nil {
		return nil, statusError(exitInterrupted)
	}
	list := &listing{Hosts: []hostLine{}, Children: []childLine{}}
	for i, h := range hosts {
		line := hostLine{HostInfo: h, RSS: residentBytes(h.PID)}
		if failures[i] != nil {
			line.Error = hostError(failures[i], h).Error()
		} else {
			children := childrenOf(answers[i], all)
			line.Children = len(children)
			list.Children = append(list.Children, children...)
		}
		list.Hosts = append(list.Hosts, line)
	}
	return list, nil
}

func askHost(ctx context.Context, info control.HostInfo) (*messages.HostStatus, error) {
	host, err := control.Dial(info)
	if err != nil {
		return nil, err
	}
	defer host.Close()
	return host.Status(ctx, false)
}

// sandboxServer stands where a child has its server.
const sandboxServer = "(sandbox)"

func childrenOf(st *messages.HostStatus, all bool) []childLine {
	var list []childLine
	for _, w := range st.Sandbox.Workers {
		if w.PID == 0 {
			continue
		}
		line := childLine{Host: st.Name, Server: sandboxServer, Actor: w.Run, PID: w.PID, State: w.State, Since: w.Since, RSS: residentBytes(w.PID)}
		if w.Run != "" {
			line.InFlight = 1
		}
		list = append(list, line)
	}
	for i := range st.Servers {
		for _, in := range st.Servers[i].Instances {
			if in.PID == 0 && !all {
				continue
			}
			list = append(list, childLine{
				Host: st.Name, Server: st.Servers[i].Name, Actor: in.Actor, PID: in.PID, State: in.State,
				InFlight: in.InFlight, Since: in.Since, RSS: residentBytes(in.PID),
			})
		}
	}
	return list
}

// residentBytes is the memory of a process; 0 where the system does not tell.
func residentBytes(pid int) int64 {
	if pid <= 0 {
		return 0
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func printListing(out io.Writer, list *listing, now time.Time) error {
	if len(list.Hosts) == 0 {
		_, err := fmt.Fprintln(out, "no host runs with this state folder")
		return err
	}
	width := terminalWidth(out)
	hosts := table{width: width}
	hosts.row("HOST", "PID", "VERSION", "AGE", "MEMORY", "CHILDREN", "CONFIG")
	for _, h := range list.Hosts {
		children, note := strconv.Itoa(h.Children), strings.Join(h.Configs, ", ")
		if h.Error != "" {
			children, note = "?", h.Error
		}
		hosts.row(oneLine(h.Name), strconv.Itoa(h.PID), oneLine(h.Version), age(now.Sub(h.Started)), memory(h.RSS), children, oneLine(note))
	}
	if err := hosts.print(out); err != nil {
		return err
	}
	if len(list.Children) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	t := table{width: width}
	t.row("HOST", "SERVER", "PID", "STATE", "IN FLIGHT", "AGE", "MEMORY", "ACTOR")
	for _, c := range list.Children {
		pid := "-"
		if c.PID != 0 {
			pid = strconv.Itoa(c.PID)
		}
		t.row(oneLine(c.Host), oneLine(c.Server), pid, strings.ToLower(oneLine(c.State)), strconv.Itoa(c.InFlight), age(now.Sub(c.Since)), memory(c.RSS), oneLine(c.Actor))
	}
	return t.print(out)
}

func memory(n int64) string {
	if n == 0 {
		return "-"
	}
	return size(n)
}
