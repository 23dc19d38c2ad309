package demoserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/integration/demoserver"
	"github.com/metamcp/metamcp/integration/testkit"
)

// In a process with this variable, the test binary is the demo server, and its
// arguments are the server's.
const serverVariable = "DEMOSERVER_TEST_SERVER"

const (
	patience = time.Minute
	modern   = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) == "" {
		os.Exit(testkit.Main(m))
	}
	opts, err := demoserver.ParseArgs(os.Args[1:], os.Stderr)
	if err == nil {
		opts.Self = []string{os.Args[0]}
		err = demoserver.Run(context.Background(), os.Stdin, os.Stdout, opts)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

func start(t *testing.T, flags ...string) *testkit.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return testkit.StartCommand(t, testkit.Command{Path: self, Args: flags, Env: []string{serverVariable + "=1"}})
}

// tool calls a tool as a legacy client and returns result and error.
func tool(l *testkit.Lines, id, name, args string) (json.RawMessage, json.RawMessage) {
	return l.Call(id, "tools/call", `{"name":"`+name+`","arguments":`+args+`}`)
}

func TestTools(t *testing.T) {
	t.Setenv("DEMOSERVER_TEST_VALUE", "42")
	l := start(t).Lines(t)
	l.Handshake()
	tests := []struct{ name, args, want string }{
		{"echo", `{"text":"<a> & \"b\" ü"}`, `{"content":[{"type":"text","text":"<a> & \"b\" ü"}]}`},
		{"echo", `{}`, `"isError":true`},
		{"echo", `{"text":1}`, `"isError":true`},
		{"add", `{"a":1.5,"b":2}`, `{"content":[{"type":"text","text":"{\"sum\":3.5}"}],"structuredContent":{"sum":3.5}}`},
		{"add", `{"a":1}`, `"isError":true`},
		{"fail", `{"message":"no"}`, `{"content":[{"type":"text","text":"no"}],"isError":true}`},
		{"raw", `{"result":{"x":1.0e2,"content":[ ]}}`, `{"x":1.0e2,"content":[ ]}`},
		{"raw", `{"result":[1]}`, `"isError":true`},
		{"notes_list", `{}`, `"structuredContent":{"notes":[]}`},
		{"notes_add", `{"text":"one"}`, `"structuredContent":{"count":1}`},
		{"notes_list", `{}`, `"structuredContent":{"notes":["one"]}`},
		{"time_now", `{}`, `Z"`},
		{"image", `{}`, `"mimeType":"image/png"`},
		{"big", `{"bytes":7}`, `"the qui"`},
		{"big", `{"bytes":-1}`, `"isError":true`},
		{"env", `{"name":"DEMOSERVER_TEST_VALUE"}`, `"set":true,"value":"42"`},
		{"env", `{"name":"DEMOSERVER_TEST_NONE"}`, `"set":false,"value":""`},
		{"whoami", `{}`, `"name":"demo"`},
		{"slow", `{"ms":1}`, `took 1 ms`},
		{"slow", `{"ms":-1}`, `"isError":true`},
		{"stderr", `{"lines":3}`, `wrote 3 lines`},
	}
	for i, tt := range tests {
		t.Run(tt.name+tt.args, func(t *testing.T) {
			result, failure := tool(l, strconv.Itoa(i), tt.name, tt.args)
			if failure != nil || !strings.Contains(string(result), tt.want) {
				t.Errorf("result %s, error %s, want %s", result, failure, tt.want)
			}
		})
	}
	if _, failure := tool(l, `"r"`, "refuse", `{"code":-7,"message":"m"}`); string(failure) != `{"code":-7,"message":"m","data":{"from":"refuse"}}` {
		t.Errorf("refuse: %s", failure)
	}
	if _, failure := tool(l, `"u"`, "nothing", `{}`); !strings.Contains(string(failure), "-32602") {
		t.Errorf("an unknown tool: %s", failure)
	}
	for _, line := range []string{"{", `{"jsonrpc":"2.0"}`} {
		l.Send([]byte(line))
		if got := string(l.Response("null")); !strings.Contains(got, `"error"`) {
			t.Errorf("%s was answered with %s", line, got)
		}
	}
}

func TestEras(t *testing.T) {
	const (
		initialize = `{"protocolVersion":"2025-06-18","capabilities":{}}`
		discover   = `{` + modern + `}`
		future     = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01"}}`
	)
	tests := []struct{ era, method, params, result, failure string }{
		{"legacy", "initialize", initialize, `"protocolVersion":"2025-06-18"`, ""},
		{"legacy", "initialize", `{"protocolVersion":"1999"}`, `"protocolVersion":"2025-11-25"`, ""},
		{"legacy", "server/discover", discover, "", "-32601"},
		{"legacy", "tools/list", discover, "", "-32022"},
		{"legacy", "ping", `{}`, "{}", ""},
		{"modern", "server/discover", discover, `"supportedVersions":["2026-07-28"]`, ""},
		{"modern", "initialize", initialize, "", `"supported":["2026-07-28"]`},
		{"modern", "tools/list", `{}`, "", "-32602"},
		{"modern", "tools/list", discover, `"resultType":"complete"`, ""},
		{"modern", "tools/list", future, "", "-32022"},
		{"modern", "ping", discover, "", "-32601"},
		{"both", "server/discover", discover, `"2025-11-25"`, ""},
		{"both", "initialize", initialize, `"protocolVersion":"2025-06-18"`, ""},
		{"both", "tools/list", `{}`, `"tools":[`, ""},
		{"both", "prompts/list", `{}`, "", "-32601"},
	}
	for _, tt := range tests {
		t.Run(tt.era+" "+tt.method, func(t *testing.T) {
			result, failure := start(t, "--era", tt.era).Lines(t).Call("1", tt.method, tt.params)
			if tt.failure == "" && (failure != nil || !strings.Contains(string(result), tt.result)) {
				t.Errorf("result %s, error %s, want %s", result, failure, tt.result)
			}
			if tt.failure != "" && !strings.Contains(string(failure), tt.failure) {
				t.Errorf("result %s, error %s, want the error %s", result, failure, tt.failure)
			}
		})
	}
}

func TestProgressComesInOrderAndCancelledCallsStaySilent(t *testing.T) {
	cancels := filepath.Join(t.TempDir(), "cancels")
	l := start(t, "--cancels-file", cancels).Lines(t)
	l.Handshake()
	l.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ms":20,"steps":5},"_meta":{"progressToken":"p"}}}`))
	l.Response("1")
	for i := 1; i <= 5; i++ {
		// All of them are there already: they came before the answer.
		want := fmt.Sprintf(`{"progressToken":"p","progress":%d,"total":5,`, i)
		if n := string(l.Notification("notifications/progress")); !strings.Contains(n, want) {
			t.Errorf("notification %d is %s", i, n)
		}
	}
	l.Send([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"ms":600000}}}`))
	l.Send([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow","arguments":{"ms":1}}}`))
	if got := string(l.Response("2")); !strings.Contains(got, "still running") {
		t.Errorf("a second request of the same id: %s", got)
	}
	l.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`))
	testkit.Eventually(t, patience, func() error {
		records, err := demoserver.ReadRecords(cancels)
		if err == nil && (len(records) != 1 || string(records[0].ID) != "2" || records[0].Tool != "slow") {
			err = fmt.Errorf("cancelled calls: %+v", records)
		}
		return err
	})
	l.Call("3", "ping", "{}")
	for _, line := range l.Unread() {
		t.Errorf("nobody asked for %s", line.Raw)
	}
}

func TestListings(t *testing.T) {
	builtIn := strings.Count(list(t, `{}`), `"inputSchema"`)
	if builtIn < 15 {
		t.Fatalf("only %d built-in tools", builtIn)
	}
	t.Run("pages", func(t *testing.T) {
		l := start(t, "--tools", "100", "--page-size", "30", "--empty-cursor").Lines(t)
		var names []string
		params := "{}"
		for page := 0; page < 20; page++ {
			result, failure := l.Call(strconv.Itoa(page), "tools/list", params)
			if failure != nil {
				t.Fatalf("page %d: %s", page, failure)
			}
			var got struct {
				Tools      []struct{ Name string }
				NextCursor *string
			}
			if err := json.Unmarshal(result, &got); err != nil {
				t.Fatal(err)
			}
			for _, tl := range got.Tools {
				names = append(names, tl.Name)
			}
			if got.NextCursor == nil {
				t.Fatal("--empty-cursor ended without a cursor")
			}
			if *got.NextCursor == "" {
				break
			}
			params = `{"cursor":"` + *got.NextCursor + `"}`
		}
		if len(names) != builtIn+100 {
			t.Errorf("%d tools on all pages, want %d", len(names), builtIn+100)
		}
		slices.Sort(names)
		if n := len(slices.Compact(names)); n != builtIn+100 {
			t.Errorf("only %d different names", n)
		}
		if _, failure := l.Call(`"bad"`, "tools/list", `{"cursor":"nonsense"}`); failure == nil {
			t.Error("a cursor that nobody gave was taken")
		}
	})
	t.Run("repeated cursor", func(t *testing.T) {
		first := list(t, `{}`, "--repeat-cursor", "--page-size", "2")
		again := list(t, `{"cursor":"again"}`, "--repeat-cursor", "--page-size", "2")
		if first != again || !strings.Contains(first, `"nextCursor":"again"`) {
			t.Errorf("first %s, again %s", first, again)
		}
	})
	t.Run("lists", func(t *testing.T) {
		l := start(t, "--lists", "1").Lines(t)
		if result, failure := l.Call("1", "tools/list", `{}`); failure != nil || result == nil {
			t.Errorf("the first is refused: %s", failure)
		}
		if _, failure := l.Call("2", "tools/list", `{}`); failure == nil {
			t.Error("the second is not refused")
		}
	})
	t.Run("odd tools", func(t *testing.T) {
		got := list(t, `{}`, "--odd-tools")
		for _, want := range []string{`12345678901234567890`, `"inputSchema":true`, `"not a tool"`, `{"name":"odd_bare"}`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in the list", want)
			}
		}
	})
}

func list(t *testing.T, params string, flags ...string) string {
	t.Helper()
	result, failure := start(t, flags...).Lines(t).Call("1", "tools/list", params)
	if failure != nil {
		t.Fatalf("tools/list: %s", failure)
	}
	return string(result)
}

func TestToolsAddedAtRunTimeAreAnnounced(t *testing.T) {
	t.Run("legacy", func(t *testing.T) {
		l := start(t).Lines(t)
		l.Handshake()
		tool(l, "1", "add_tool", `{"name":"fresh"}`)
		l.Notification("notifications/tools/list_changed")
		if result, _ := tool(l, "2", "fresh", `{}`); !strings.Contains(string(result), "called fresh") {
			t.Errorf("the new tool: %s", result)
		}
		if result, _ := tool(l, "3", "add_tool", `{"name":"fresh"}`); !strings.Contains(string(result), `"isError":true`) {
			t.Errorf("the same name again: %s", result)
		}
	})
	t.Run("modern", func(t *testing.T) {
		l := start(t, "--era", "modern").Lines(t)
		l.Send([]byte(`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modern + `}}`))
		l.Notification("notifications/subscriptions/acknowledged")
		l.Call("1", "tools/call", `{"name":"add_tool","arguments":{"name":"fresh"},`+modern+`}`)
		if n := string(l.Notification("notifications/tools/list_changed")); !strings.Contains(n, `"io.modelcontextprotocol/subscriptionId":"s"`) {
			t.Errorf("notification %s", n)
		}
	})
}

func TestAsk(t *testing.T) {
	t.Run("legacy", func(t *testing.T) {
		l := start(t).Lines(t)
		l.Handshake()
		l.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"method":"roots/list"}}}`))
		if n := string(l.Notification("roots/list")); !strings.Contains(n, `"id":"ask-1"`) {
			t.Fatalf("question %s", n)
		}
		l.Send([]byte(`{"jsonrpc":"2.0","id":"ask-1","error":{"code":-32601,"message":"no"}}`))
		if got := string(l.Response("1")); !strings.Contains(got, `"error":{"code":-32601,"message":"no"}`) {
			t.Errorf("answer %s", got)
		}
		if result, _ := tool(l, "2", "ask", `{"method":"ping","ms":1}`); !strings.Contains(string(result), "no answer to ping") {
			t.Errorf("without an answer: %s", result)
		}
	})
	t.Run("modern", func(t *testing.T) {
		l := start(t, "--era", "modern").Lines(t)
		result, _ := l.Call("1", "tools/call", `{"name":"ask",`+modern+`}`)
		if !strings.Contains(string(result), `"resultType":"input_required"`) {
			t.Fatalf("first answer %s", result)
		}
		const answer = `"inputResponses":{"question":{"roots":[]}}`
		result, _ = l.Call("2", "tools/call", `{"name":"ask",`+answer+`,"requestState":"demo-state-1",`+modern+`}`)
		if !strings.Contains(string(result), `"structuredContent":{"method":"roots/list","result":{"roots":[]}}`) {
			t.Errorf("second answer %s", result)
		}
		result, _ = l.Call("3", "tools/call", `{"name":"ask",`+answer+`,"requestState":"forged",`+modern+`}`)
		if !strings.Contains(string(result), `"isError":true`) {
			t.Errorf("answer to a forged state: %s", result)
		}
	})
}

// The library client knows nothing of this server's making; that it is content
// in both eras says that the wire format is right.
func TestLibraryClientIsContent(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			p := start(t, "--era", era)
			c := p.Legacy
			if era == "modern" {
				c = p.Modern
			}
			callEcho(t, c(t))
		})
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	for _, args := range [][]string{
		{"--era", "stone"}, {"--tools", "-1"}, {"--max-life", "0s"}, {"--page-size", "-1"}, {"--nonsense"}, {"word"},
	} {
		if _, err := demoserver.ParseArgs(args, io.Discard); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
	if _, err := demoserver.ParseArgs([]string{"--help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help gives %v", err)
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	defer testkit.NoLeaks(t, goleak.IgnoreCurrent())
	in, feed := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- demoserver.Run(ctx, in, io.Discard, demoserver.DefaultOptions()) }()
	if _, err := io.WriteString(feed, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ms":600000}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Run did not end with its context")
	}
	if err := feed.Close(); err != nil {
		t.Error(err)
	}
}
