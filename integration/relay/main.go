package relay

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/metamcp/metamcp/integration/attach"
)

// EndSignals are those at which a metamcp ends in order. The end of its terminal is
// none where it was started to outlive that, as nohup does by ignoring the signal.
func EndSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// Main is the whole of a process that is a relay: it connects standard input
// and output with a host and returns the exit code. The first signal ends it
// like the end of its input, the second at once.
func Main(first *attach.Conn, connect func(ctx context.Context, resumed bool) (*attach.Conn, error)) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, EndSignals()...)
	// A client that is gone is met by an error of its pipe, and not by the
	// system's signal, so that the host hears of the end.
	signal.Ignore(syscall.SIGPIPE)
	go func() { // ends with the process
		<-signals
		stop()
		<-signals
		os.Exit(1)
	}()
	said := make(chan string, 16)
	go func() { // ends with the process; a client that does not read stderr stops nothing else
		for text := range said {
			fmt.Fprintln(os.Stderr, "metamcp:", text)
		}
	}()
	err := Run(ctx, first, Options{
		In: os.Stdin, Out: os.Stdout, Connect: connect, //nolint:forbidigo // this is the protocol
		Say: func(text string) {
			select {
			case said <- text:
			default:
			}
		},
	})
	if err != nil {
		return 1
	}
	return 0
}
