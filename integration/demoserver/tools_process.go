package demoserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

const maxStderrLines = 1_000_000

// processTools have to do with the server as a process: its time, its
// environment, its end.
var processTools = []tool{
	{
		name: "slow", description: "Takes the given time, and reports progress in steps.",
		schema: `{"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":600000},` +
			`"steps":{"type":"integer","minimum":0,"maximum":100000}},"required":["ms"]}`,
		annotations: pure, slow: slow,
	},
	{
		name: "crash", description: "Ends the server in the middle of the call, after the given time.",
		schema:      `{"type":"object","properties":{"code":{"type":"integer","default":1},"ms":{"type":"integer","minimum":0}}}`,
		annotations: unsafe, slow: crash,
	},
	{
		name: "env", description: "Returns the value of one environment variable of the server.",
		schema:      `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
		annotations: pure, quick: env,
	},
	{name: "whoami", description: "Tells the server's name, process ids and working directory.", annotations: pure, quick: whoami},
	{
		name: "stderr", description: "Writes lines to the server's standard error.",
		schema:      `{"type":"object","properties":{"lines":{"type":"integer","minimum":0,"maximum":1000000},"text":{"type":"string"}},"required":["lines"]}`,
		annotations: additive, slow: stderr,
	},
}

func slow(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ MS, Steps int }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if a.MS < 0 || a.MS > 600_000 || a.Steps < 0 || a.Steps > 100_000 {
		return c.problem("wrong arguments for slow: ms is at most 600000 and steps at most 100000"), nil
	}
	steps := max(a.Steps, 1)
	start := time.Now()
	total := time.Duration(a.MS) * time.Millisecond
	for i := 1; i <= steps; i++ {
		due := start.Add(total * time.Duration(i) / time.Duration(steps))
		if !sleep(ctx, time.Until(due)) {
			return nil, nil // nobody waits any more
		}
		if a.Steps == 0 || c.progress == nil {
			continue
		}
		s.complain(s.out.notify("notifications/progress", object("progressToken", c.progress,
			"progress", i, "total", steps, "message", fmt.Sprintf("step %d of %d", i, steps))))
	}
	return c.text(fmt.Sprintf("took %d ms in %d steps", a.MS, a.Steps)), nil
}

// sleep waits for d and tells whether ctx was not done before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func crash(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	a := struct{ Code, MS int }{Code: 1}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if !sleep(ctx, time.Duration(a.MS)*time.Millisecond) {
		return nil, nil
	}
	if s.opts.HalfAnswer {
		s.complain(s.out.half(c.id))
	}
	_, _ = fmt.Fprintf(s.opts.stderr(), "demo-server: crashing with status %d, as told\n", a.Code)
	exit(a.Code)
	return nil, nil
}

func env(_ *server, c *call) (json.RawMessage, *rpcError) {
	var a struct{ Name string }
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	value, set := os.LookupEnv(a.Name)
	return c.structured(object("name", a.Name, "set", set, "value", value)), nil
}

func whoami(s *server, c *call) (json.RawMessage, *rpcError) {
	dir, err := os.Getwd()
	if err != nil {
		return c.problem(err.Error()), nil
	}
	return c.structured(object("name", s.opts.Name, "pid", os.Getpid(), "ppid", os.Getppid(), "dir", dir)), nil
}

func stderr(ctx context.Context, s *server, c *call) (json.RawMessage, *rpcError) {
	a := struct {
		Lines int
		Text  string
	}{Text: "a line on stderr"}
	if p := c.read(&a); p != "" {
		return c.problem(p), nil
	}
	if a.Lines < 0 || a.Lines > maxStderrLines {
		return c.problem(fmt.Sprintf("wrong arguments for stderr: lines must be between 0 and %d", maxStderrLines)), nil
	}
	for i := 0; i < a.Lines && ctx.Err() == nil; i++ {
		if _, err := fmt.Fprintf(s.opts.stderr(), "%s (%d of %d)\n", a.Text, i+1, a.Lines); err != nil {
			return c.problem(err.Error()), nil
		}
	}
	return c.text(fmt.Sprintf("wrote %d lines", a.Lines)), nil
}
