package front

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

const patience = 30 * time.Second

// fakeEngine hands each call to its function, or answers with an echo.
type fakeEngine struct {
	call    func(r Request)
	mu      sync.Mutex
	cancels []string // reasons
	signal  chan struct{}
}

func (e *fakeEngine) Call(r Request) {
	if e.call != nil {
		e.call(r)
		return
	}
	r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(r)})
}

func echo(r Request) json.RawMessage {
	args := r.Args
	if args == nil {
		args = json.RawMessage("null")
	}
	return fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s/%s"}],"structuredContent":%s}`, r.Server, r.Tool, args)
}

func (e *fakeEngine) Cancel(_, _ uint64, reason string) {
	e.mu.Lock()
	e.cancels = append(e.cancels, reason)
	e.mu.Unlock()
	if e.signal != nil {
		e.signal <- struct{}{}
	}
}

func (e *fakeEngine) reasons() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.cancels...)
}

// newMCP is a server with the tool mcp_call, which is never reached, and the
// others that a test gives.
func newMCP(tools map[string]server.ToolHandlerFunc) *server.MCPServer {
	s := server.NewMCPServer("metamcp", "1", server.WithToolCapabilities(true), server.WithLogging())
	s.AddTool(mcp.NewTool("mcp_call"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("the spliced tool reached mcp-go")
	})
	for name, handler := range tools {
		s.AddTool(mcp.NewTool(name), handler)
	}
	return s
}

// session is one client of a running Serve.
type session struct {
	t      testing.TB
	in     *os.File // the client writes here
	out    *os.File // and reads here
	lines  *bufio.Reader
	ended  chan error
	cancel context.CancelFunc
}

func start(t testing.TB, opts Options) *session {
	t.Helper()
	inR, inW := pipe(t)
	outR, outW := pipe(t)
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{t: t, in: inW, out: outR, lines: bufio.NewReaderSize(outR, 1<<20), ended: make(chan error, 1), cancel: cancel}
	if opts.MCP == nil {
		opts.MCP = newMCP(nil)
	}
	if opts.Engine == nil {
		opts.Engine = &fakeEngine{}
	}
	go func() {
		err := Serve(ctx, inR, outW, opts)
		_ = outW.Close()
		s.ended <- err
	}()
	t.Cleanup(func() { cancel(); _ = inW.Close(); _ = outR.Close() })
	return s
}

func (s *session) send(lines ...string) {
	s.t.Helper()
	if _, err := s.in.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		s.t.Fatalf("writing to the server: %v", err)
	}
}

func (s *session) recv() string {
	s.t.Helper()
	if err := s.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	line, err := s.lines.ReadString('\n')
	if err != nil {
		s.t.Fatalf("reading from the server: %q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (s *session) expect(want string) {
	s.t.Helper()
	if got := s.recv(); got != want {
		s.t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// end closes the input and returns what Serve returned, after all lines that
// were left.
func (s *session) end() (rest []string, err error) {
	s.t.Helper()
	_ = s.in.Close()
	if err := s.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			break
		}
		rest = append(rest, strings.TrimSuffix(line, "\n"))
	}
	return rest, s.wait()
}

func (s *session) wait() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		s.t.Fatal("Serve does not return")
		return nil
	}
}

func (s *session) endsClean() {
	s.t.Helper()
	if rest, err := s.end(); err != nil || len(rest) > 0 {
		s.t.Errorf("the end: %v, %q", err, rest)
	}
}

func callLine(id any, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"mcp_call","arguments":%s}}`, id, arguments)
}
