package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/relay"
	"github.com/metamcp/metamcp/integration/web"
)

const (
	// endTimeout is how long the end of the host may take at least once its drain is
	// over; see endTime.
	endTimeout = 60 * time.Second
	// restTimeout bounds the end of the host's own pages and sockets.
	restTimeout = 10 * time.Second
)

// endTime bounds the end of a host after its drain, whose children may take so long: a
// child's ladder takes what its stopGraceMs says, and none is waited for longer.
func endTime(children time.Duration) time.Duration { return max(endTimeout, children) }

func newServe(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Speak MCP over standard input and output (the default), or over HTTP", Args: args(noArgs),
		Long: `Speak MCP with one client over standard input and output, which is the default, or with
many over Streamable HTTP. With --http nothing is read from standard input, and the host
runs until it gets a signal; with --stdio beside it, it serves one client there too, and
ends with it. docs/HTTP.md says more.`,
		Example: `  metamcp serve
  metamcp serve --import
  metamcp serve --http :8090
  metamcp serve --http :8090 --stdio
  metamcp serve --config ~/project/.mcp.json --web :7777`,
		RunE: func(cmd *cobra.Command, _ []string) error { return attachOrServe(cmd.Context(), c) },
	}
	serveFlags(cmd, c)
	return cmd
}

func serveFlags(cmd *cobra.Command, c *common) {
	cmd.Flags().StringVar(&c.name, "name", "", `what "metamcp status" and others call this host (default: after its pid)`)
	cmd.Flags().StringVar(&c.web, "web", "", "show the host in a browser: `address` such as :7777 or 127.0.0.1:7777; the link is printed on stderr")
	cmd.Flags().StringVar(&c.http, "http", "", "serve clients over HTTP instead: `address` such as :8090 or 127.0.0.1:8090; 0.0.0.0:8090 is for other machines and needs tokens")
	cmd.Flags().BoolVar(&c.stdio, "stdio", false, "with --http: serve one client over standard input and output as well, and end with it")
	cmd.Flags().BoolVar(&c.borrow, "import", false, "for this run, take in the servers of the LLM clients' files; those of the configuration win")
}

// takeIn reads the servers of the clients' files, which are there for this run
// only. A file that cannot be read is said and left out: the host does its work
// without it.
func (c *common) takeIn() error {
	log, err := c.logger()
	if err != nil {
		return err
	}
	s, err := c.setup()
	if err != nil {
		return err
	}
	servers, problems := s.Borrow(c.configFiles())
	for _, p := range problems {
		log.Warn("servers of a client are not taken in", "reason", p)
	}
	c.guests = nil
	for _, b := range servers {
		c.guests = append(c.guests, config.Guest{From: b.From, Text: b.Text})
		log.Info("a server of a client is taken in for this run", "server", b.Name, "from", b.From)
		for _, n := range b.Notes {
			log.Warn(n, "server", b.Name)
		}
	}
	return nil
}

// checkWeb looks at --web before anything is started.
func (c *common) checkWeb() error {
	if c.web == "" {
		return nil
	}
	if _, err := web.CheckAddr(c.web); err != nil {
		return usageError{fmt.Errorf("--web: %w", err)}
	}
	return nil
}

// serve is the host. It ends when its input ends or at a signal: no new
// requests, those in flight drain, all children end. A second signal skips the
// drain.
func serve(parent context.Context, c *common) error {
	outliveReaders()
	if err := c.checkWeb(); err != nil {
		return err
	}
	if c.http != "" {
		if _, _, err := front.CheckHTTPAddr(c.http); err != nil {
			return usageError{fmt.Errorf("--http: %w", err)}
		}
	}
	if c.overStdio() && isTerminal(os.Stdin) {
		fmt.Fprintf(c.stderr, terminalHint, c.entry())
	}
	over := make(chan struct{})
	defer close(over)
	go paceHeap(over)
	out, err := front.TakeStdout()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, relay.EndSignals()...)
	defer signal.Stop(signals)

	if c.borrow {
		if err := c.takeIn(); err != nil {
			return err
		}
	}
	e, err := c.open(parent, true)
	if err != nil {
		return err
	}
	// A client that waits for the handshake does not wait for the socket.
	socket := make(chan *control.Server, 1)
	go func() {
		s, err := e.OpenControl(c.name)
		if err != nil {
			e.Log().Warn("other programs cannot look into this host", "error", err)
		}
		socket <- s
	}()
	if addr, err := e.ServeMetrics(); err != nil {
		e.Log().Error("the host goes on without", "error", err)
	} else if addr != nil {
		e.Log().Info("metrics are served", "url", "http://"+addr.String()+"/metrics")
	}
	page := make(chan *web.Server, 1)
	go func() { page <- c.openPage(e) }()
	ctx, stop := context.WithCancel(parent)
	defer stop()
	served := make(chan struct{})
	go watch(signals, e.GaveUp(), stop, func(s os.Signal) {
		e.Log().Warn("a signal while the session ends; calls in flight are not waited for", "signal", s.String())
		e.Drain(time.Now())
	}, served)
	err = c.serveClients(ctx, e, out)
	// What was in flight for clients has ended; what is for others, such as the page, has
	// a drain of its own.
	err = errors.Join(err, closeWithin(parent, e.Config().Settings.DrainTimeout+endTime(e.EndTime()), e.Close))
	if s := <-socket; s != nil {
		err = errors.Join(err, closeWithin(parent, restTimeout, s.Close))
	}
	if p := <-page; p != nil {
		err = errors.Join(err, closeWithin(parent, restTimeout, p.Close))
	}
	close(served)
	select {
	case <-e.GaveUp():
		err = errors.Join(err, errDamaged)
	default:
	}
	return err
}

// openPage serves the web page where it was asked for, and returns nil where
// there is none: the host does its work without it.
func (c *common) openPage(e *metamcp.Engine) *web.Server {
	if c.web == "" {
		return nil
	}
	page, err := e.OpenWeb(c.web, c.name)
	if err != nil {
		fmt.Fprintln(c.stderr, "metamcp:", err)
		return nil
	}
	fmt.Fprintln(c.stderr, "metamcp: this host in a browser:", page.URL())
	return page
}

// watch ends the session at the first signal or when the runtime gives up, and hurries
// that end at a signal that comes then. It returns when over is closed.
func watch(signals <-chan os.Signal, gaveUp <-chan struct{}, stop func(), hurry func(os.Signal), over <-chan struct{}) {
	asked := false
	for {
		select {
		case s := <-signals:
			if asked {
				hurry(s)
			}
			asked = true
			stop()
		case <-gaveUp:
			gaveUp = nil // once is enough
			asked = true
			stop()
		case <-over:
			return
		}
	}
}

// isTerminal says whether f is a terminal, and not another device such as /dev/null.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// entry is what a client has to be told to start this very program.
func (c *common) entry() string {
	program, err := ownPath()
	if err != nil {
		program = "metamcp"
	}
	flags := []string{}
	if len(c.files) > 0 { // the variable's are for the client's environment to name
		named, _ := namedFiles(c.files)
		for _, f := range named {
			flags = append(flags, "--config", f)
		}
	}
	text, err := json.Marshal(map[string]any{"command": program, "args": flags})
	if err != nil {
		return `{"command": "metamcp"}`
	}
	return string(text)
}

const terminalHint = `metamcp speaks MCP over standard input and output: a client starts it, not a person.
To add it to the clients that are installed here: metamcp init.
By hand, put this where the client keeps its servers
(Claude Code: "claude mcp add metamcp -- metamcp"; Cursor: ~/.cursor/mcp.json):

  {"mcpServers": {"metamcp": %s}}

The servers behind it stand in the files of --config, else of METAMCP_CONFIG, else
in .mcp.json here, else in ~/.metamcp/mcp.json.
To try it from the shell: metamcp discover, metamcp call SERVER TOOL JSON.
Reading MCP from this terminal now; Ctrl-D ends it.
`
