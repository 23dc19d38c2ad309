package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

const handshakeWait = 60 * time.Second

// Legacy connects an MCP client of the 2025-11-25 revision to the process. It is
// closed when the test ends.
func (p *Process) Legacy(tb testing.TB, opts ...client.ClientOption) *client.Client {
	tb.Helper()
	return p.connect(tb, mcp.LATEST_LEGACY_PROTOCOL_VERSION, opts)
}

// Modern connects an MCP client of the 2026-07-28 revision to the process, and
// fails the test where the server speaks only older ones.
func (p *Process) Modern(tb testing.TB, opts ...client.ClientOption) *client.Client {
	tb.Helper()
	return p.connect(tb, mcp.ProtocolVersion20260728, opts)
}

func (p *Process) connect(tb testing.TB, version string, opts []client.ClientOption) *client.Client {
	tb.Helper()
	io := transport.NewIO(p.Stdout(tb), p.stdin, nil)
	c := client.NewClient(io, append([]client.ClientOption{client.WithProtocolVersion(version), client.WithDiscoverTimeout(handshakeWait)}, opts...)...)
	tb.Cleanup(func() {
		_ = p.stdout.Close() // frees the reader that Close of the client leaves behind
		_ = c.Close()
	})
	ctx, cancel := context.WithTimeout(context.Background(), handshakeWait)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		tb.Fatalf("start the client: %v", err)
	}
	_, err := c.Initialize(ctx, mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: version,
		ClientInfo:      mcp.Implementation{Name: "testkit", Version: "1"},
	}})
	if err != nil {
		tb.Fatalf("shake hands in %s: %v; the end of stderr:\n%s", version, err, p.Stderr)
	}
	if got := c.ProtocolVersion(); got != version {
		tb.Fatalf("the server speaks %s, not %s", got, version)
	}
	return c
}
