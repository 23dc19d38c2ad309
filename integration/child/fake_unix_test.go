//go:build unix

package child

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// fakeVar names the behaviour of a fake server.
const fakeVar = "METAMCP_TEST_FAKE"

// lifetime ends fakes that a failed test forgot.
const lifetime = 2 * time.Minute

func fake(mode string) {
	time.AfterFunc(lifetime, func() { os.Exit(99) })
	switch mode {
	case "echo":
		_, _ = io.Copy(os.Stdout, bufio.NewReaderSize(os.Stdin, 1<<20))
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		say("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		select {}
	case "grandchild": // shares stdout with a grandchild and exits at EOF
		start("deaf", os.Stdout, nil, os.Environ())
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "gossip": // leaves a grandchild that talks on
		start("talks", os.Stdout, nil, os.Environ())
	case "talks":
		for {
			say("again")
		}
	case "orphan": // leaves a grandchild in its group
		start("deaf", nil, nil, os.Environ())
	case "setsid": // a grandchild in a session of its own that keeps the marker
		start("deaf", nil, &syscall.SysProcAttr{Setsid: true}, os.Environ())
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "setsid-bare": // the same without the marker, found by its parent
		var env []string
		for _, e := range os.Environ() {
			if !strings.HasPrefix(e, "METAMCP_TREE=") {
				env = append(env, e)
			}
		}
		start("deaf", nil, &syscall.SysProcAttr{Setsid: true}, env)
		signal.Ignore(syscall.SIGTERM)
		select {}
	case "flood":
		line := append(bytes.Repeat([]byte("x"), 99), '\n')
		for range 300_000 {
			_, _ = os.Stderr.Write(line)
		}
		fmt.Fprintln(os.Stderr, "the last words")
		say("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "noise":
		_, _ = os.Stdout.WriteString("\xef\xbb\xbf" + `{"method":"one"}` + "\r\n\n  \nhello\n" + `{"level":"info"}` + "\n{broken\n" +
			strings.Repeat("n", 10_000) + "\n" + `[{"method":"two"},{"method":"three","params":["]",","]}]` + "\n[]\n" + `{"method":"four"}`)
	case "secret":
		for _, n := range []int{4085, 4096, prefixSize - 10, prefixSize} {
			_, _ = os.Stdout.WriteString(strings.Repeat("n", n) + secretOfFake + strings.Repeat("m", 5000) + "\n")
		}
	case "key":
		line := strings.Repeat("MIIEpAIBAAKCAQEA", 4) + "\n"
		fmt.Fprintln(os.Stderr, "-----BEGIN PRIVATE"+" KEY-----") // of which this stream has no more
		_, _ = os.Stdout.WriteString("using\n-----BEGIN RSA PRIVATE" + " KEY-----\r\nProc-Type: 4,ENCRYPTED\n\n" + line +
			`{"method":"one"}` + "\n" + strings.Repeat(line, 20) + "QUJD==\n-----END RSA PRIVATE" + " KEY-----\nMIIEafter\n")
	case "broken":
		_, _ = os.Stdout.WriteString(`{"id":1,"result":{"text":"a` + "\xff\xc3" + `b"}}` + "\n" +
			`{"id":2,"result":{"text":"` + "\xff" + `"}}` + "\n" +
			`{"result":{"text":"a\qb"},"id":3}` + "\n" + // no such escape
			`{"id":4,"result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}\n" +
			`{"id":5,"result":{"text":"the rest follows` + "\n" +
			`{"id":6,"level":"info","text":"` + "\xff" + `"}` + "\n" +
			`{"id":7,"method":"m","params":{"text":"a\qb"}}` + "\n" +
			`{"method":"after"}` + "\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "half": // dies with an answer on its way
		_, _ = os.Stdout.WriteString(`{"id":1,"result":{}}` + "\n" + `{"id":2,"result":{"text":"` + strings.Repeat("x", 2*readSize) + `","nested":{"id":3}`)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "half-large":
		_, _ = os.Stdout.WriteString(`{"result":{"text":"` + strings.Repeat("x", 2*readSize) + `","nested":{"result":1,"id":3}`)
	case "half-batch":
		_, _ = os.Stdout.WriteString(`[{"id":1,"result":{}},{"id":2,"result":{"text":"`)
	case "half-repaired": // what is not UTF-8 would be longer
		_, _ = os.Stdout.WriteString(`{"id":2,"result":{"text":"` + strings.Repeat("\xff", 10))
	case "no-line-feed":
		_, _ = os.Stdout.WriteString(`{"id":1,"result":{"text":"a` + "\xff" + `b"}}`)
	case "no-line-feed-large": // what is not UTF-8 is longer
		_, _ = os.Stdout.WriteString(`{"result":{"text":"` + strings.Repeat("\xff", 2*prefixSize) + `"},"id":1}`)
	case "json-log":
		for _, line := range []string{
			`{"level":"warn","id":7,"error":"timeout, retrying"}`, `{"event":"done","id":"7","result":"ok"}`, `{"id":7,"error":null,"result":[1]}`,
			`{"id":7,"error":"caf` + "\xe9" + `"}`, `[{"id":7,"error":"timeout"}]`, `{"method":"GET","id":7,"result":{"status":200}}`, `{"level":"info","id":7}`,
			`{"id":7,"result":{}}`, `{"id":8,"error":{"code":1,"message":"caf` + "\xe9" + `"}}`, `{"jsonrpc":"2","id":9,"error":"boom"}`, `{"id":10,"error":"cut`,
		} {
			_, _ = os.Stdout.WriteString(line + "\n")
		}
	case "no-answer": // which says of itself that it is a message, but no request
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","Result":{},"id":"2"}`, `{"jsonrpc":"2.0","id":3,"method":null,"params":{}}`,
			`{"jsonrpc":"2.0","id":4,"method":"","result":null}`, `{"jsonrpc":"2.0","id":5,"method":"m","result":{}}`,
			`{"jsonrpc":"2.0","id":6,"method":"m","error":{"code":1,"message":"caf` + "\xe9" + `"}}`, `[{"jsonrpc":"2.0","id":7}]`,
			`{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":null}`, `{"jsonrpc":"2.0","id":[8],"result":{}}`, `{"jsonrpc":"2.0","id":8,"method":5}`, `{"jsonrpc":"1.0","id":8,"method":"m"}`,
		} {
			_, _ = os.Stdout.WriteString(line + "\n")
		}
	case "last-words":
		say("first")
		_, _ = io.Copy(io.Discard, os.Stdin)
		say("last")
	case "close-stdout":
		_ = os.Stdout.Close()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "huge":
		out := bufio.NewWriterSize(os.Stdout, 1<<20)
		block := bytes.Repeat([]byte("x"), 1<<20)
		for _, ends := range [][2]string{
			{`{"id":"7","result":"`, `"}`},
			{`{"result":"`, `","jsonrpc":"2.0","id":8}`},
			{`{"method":"m","params":"`, `","id":9}`},
		} {
			_, _ = out.WriteString(ends[0])
			for range hugeBlocks {
				_, _ = out.Write(block)
			}
			_, _ = out.WriteString(ends[1] + "\n")
		}
		_, _ = out.WriteString(`{"method":"after"}` + "\n")
		_ = out.Flush()
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "no-read":
		say("ready")
		select {}
	case "late-read": // reads when it is told to by SIGUSR1
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGUSR1)
		say("ready")
		<-c
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "exit3":
		fmt.Fprintln(os.Stderr, "boom: no key")
		os.Exit(3)
	case "abort":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "pwd":
		dir, _ := os.Getwd()
		say(dir)
	default:
		moreFakes[mode]()
	}
}

// moreFakes are those that exist on one system only.
var moreFakes = map[string]func(){}

func say(method string) {
	_, _ = fmt.Fprintf(os.Stdout, "{\"method\":%q,\"params\":{\"pid\":%d}}\n", method, os.Getpid())
}

// start starts another fake and says its pid once it is ready.
func start(mode string, stdout *os.File, attr *syscall.SysProcAttr, env []string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(env, fakeVar+"="+mode)
	cmd.SysProcAttr = attr
	if stdout != nil {
		cmd.Stdout = stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		return
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(os.Stdout, "{\"method\":\"ready\",\"params\":{\"pid\":%d}}\n", cmd.Process.Pid)
}
