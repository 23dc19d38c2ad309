//go:build unix

package soak_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// session is a client that is attached to the host. It is made for millions of
// calls: [testkit.Lines] is for hundreds.
type session struct {
	process *testkit.Process
	out     *bufio.Writer
	sending sync.Mutex // guards out

	mu      sync.Mutex
	waiting map[string]chan []byte // by the name of a request; nil: cancelled
	strange string                 // the first line that nobody waited for
	ended   chan struct{}          // closed when nothing more comes
}

// keepClient has one client after the other attached to the host, each for some
// time. Every other one is killed in the midst of its calls.
func (s *stand) keepClient(ctx context.Context, number int, lives time.Duration) {
	random := rand.New(rand.NewPCG(1, uint64(number))) // the same load each time
	for n := 0; ctx.Err() == nil; n++ {
		life, over := context.WithTimeout(ctx, lives/2+time.Duration(random.Int64N(int64(lives))))
		c := s.attach()
		s.came.Add(1)
		var all sync.WaitGroup
		for i := range workers {
			seed := random.Uint64()
			all.Go(func() { s.work(life, c, fmt.Sprintf("%d.%d.%d", number, n, i), seed) })
		}
		<-life.Done()
		over()
		if n%2 == 1 {
			c.process.Signal(s.t, os.Kill)
		}
		all.Wait()
		c.process.CloseStdin()
		c.process.Wait(s.t, patience)
		<-c.ended
		if c.strange != "" {
			s.t.Errorf("client %d.%d got what it had not asked for, or got twice: %.500s", number, n, c.strange)
		}
	}
}

func (s *stand) attach() *session {
	p := s.metamcp("--attach=require")
	out := p.Stdout(s.t)
	c := &session{process: p, out: bufio.NewWriter(p.Stdin()), waiting: map[string]chan []byte{}, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.read(out)
	}()
	hello, err := c.ask("hello", `"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}`)
	if err != nil {
		s.t.Errorf("a client that attaches: %v", err)
	}
	if hello != nil {
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return c
}

// errEnded is that of a request whose client has ended before its answer came.
var errEnded = errors.New("the client has ended")

// ask sends a request and waits for its answer.
func (c *session) ask(name, method string) ([]byte, error) {
	answer := make(chan []byte, 1)
	c.mu.Lock()
	c.waiting[name] = answer
	c.mu.Unlock()
	c.send(`{"jsonrpc":"2.0","id":"` + name + `","method":` + method + `}`)
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case line := <-answer:
		return line, nil
	case <-c.ended:
		return nil, errEnded
	case <-late.C:
		return nil, fmt.Errorf("%s %.200s is not answered within %s", name, method, patience)
	}
}

// cancelled sends a request that it withdraws at once: an answer may come or not.
func (c *session) cancelled(name, method string) {
	c.mu.Lock()
	c.waiting[name] = nil
	c.mu.Unlock()
	c.send(`{"jsonrpc":"2.0","id":"` + name + `","method":` + method + `}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + name + `"}}`)
}

// send writes a line. That the process has ended its reader tells.
func (c *session) send(line string) {
	c.sending.Lock()
	defer c.sending.Unlock()
	_, _ = c.out.WriteString(line)
	_ = c.out.WriteByte('\n')
	_ = c.out.Flush()
}

func (c *session) read(from io.Reader) {
	lines := bufio.NewReaderSize(from, 256<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var head struct {
			ID     string `json:"id"`
			Method string `json:"method"`
		}
		if err := json.Unmarshal(line, &head); err == nil && head.Method != "" {
			continue // a notification
		}
		c.mu.Lock()
		answer, known := c.waiting[head.ID]
		delete(c.waiting, head.ID)
		if !known && c.strange == "" {
			c.strange = string(line)
		}
		c.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}

// work makes calls of all kinds, one at a time. What waits when the client is
// killed is not answered.
func (s *stand) work(ctx context.Context, c *session, worker string, seed uint64) {
	random := rand.New(rand.NewPCG(2, seed))
	for n := 0; ctx.Err() == nil; n++ {
		k := s.pick(random)
		name := worker + "." + strconv.Itoa(n)
		call := `"tools/call","params":{"name":"` + k.tool + `","arguments":` + k.args(random.IntN(1000), name) + `}`
		if k.cancel {
			c.cancelled(name, call)
			continue
		}
		began := time.Now()
		answer, err := c.ask(name, call)
		if errors.Is(err, errEnded) && ctx.Err() != nil {
			return
		}
		if err != nil {
			s.t.Errorf("%s: %v", name, err)
			return
		}
		s.count(k, name, answer, began)
	}
}

// briefServer is an MCP server that starts in few milliseconds and has one tool.
func briefServer(in io.Reader, out io.Writer) {
	for scan := bufio.NewScanner(in); scan.Scan(); {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Arguments struct {
					Text string `json:"text"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(scan.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		var result string
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"brief","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"echo","description":"Says what it was told.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}`
		case "tools/call":
			text, _ := json.Marshal(m.Params.Arguments.Text)
			result = `{"content":[{"type":"text","text":` + string(text) + `}]}`
		default:
			_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"not here"}}`+"\n", m.ID)
			continue
		}
		_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}
