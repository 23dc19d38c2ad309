package metamcp_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// A drainTimeoutMs of 0 waits for no call, which is not the fronts' own default of
// 30 s.
func TestNoDrainTimeout(t *testing.T) {
	t.Parallel()
	const enough = 15 * time.Second
	for name, overHTTP := range map[string]bool{"stdio": false, "http": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := open(t, map[string][]string{"a": nil}, map[string]any{"drainTimeoutMs": 0})
			c, closed := &asked{}, make(chan struct{})
			end := func() { _ = c.in.Close() }
			if overHTTP {
				l, err := e.ListenHTTP(t.Context(), "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				c.url = l.URL()
				end = func() {
					go func() {
						defer close(closed)
						ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
						defer cancel()
						_ = l.Close(ctx) // the call that it cuts off is an error
					}()
				}
			}
			connectClient(t, e, c)
			if !overHTTP {
				closed = c.done
			}
			c.begin("tools/call", callOf("a", "slow", `{"ms":600000}`))
			testkit.Eventually(t, time.Minute, func() error {
				s, err := e.HostStatus(t.Context(), false)
				if err == nil && s.Calls.InFlight != 1 {
					err = fmt.Errorf("%d calls are in flight", s.Calls.InFlight)
				}
				return err
			})
			end()
			select {
			case <-closed:
			case <-time.After(enough):
				t.Error("it waits for the call")
				<-closed
			}
		})
	}
}
