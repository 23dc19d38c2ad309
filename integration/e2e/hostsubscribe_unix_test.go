//go:build unix

package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// Whoever subscribed to a resource hears of its changes after a restart of the
// host, and after its death: it does nothing for that, and its subscription is
// neither ended nor acknowledged once more.
func TestSubscriptionsOutliveTheHost(t *testing.T) {
	const method, ack = "notifications/resources/updated", "notifications/subscriptions/acknowledged"
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			entry := with(contentServer(t, "--name", "a"), "lifecycle", "ephemeral")
			p := newPlace(t, servers{"a": entry}, nil)
			h := p.host("--expose=resources")
			c := p.attached()
			c.modern = modern
			const uri = "metamcp://a/demo://a/static"
			listen := ""
			if modern {
				listen = c.request("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["`+uri+`"],"resourcesListChanged":true}}`)
				c.Notification(ack)
			} else {
				c.Handshake()
				c.resultOf(c.request("resources/subscribe", `{"uri":"`+uri+`"}`))
			}
			hears := func(when string) {
				t.Helper()
				eventually(t, when, func() bool {
					c.call("a", "touch", `{"uri":"demo://a/static"}`)
					_, err := c.Match(2*time.Second, func(l testkit.Line) bool { return l.Method == method && strings.Contains(string(l.Raw), uri) })
					return err == nil
				})
				for _, l := range c.Unread() {
					if l.Method == ack || listen != "" && string(l.ID) == listen {
						t.Errorf("%s the client sees %s", when, l.Raw)
					}
				}
			}
			hears("at first")

			next := p.run("host", "--replace", "--expose=resources")
			p.serves(next)
			if code := h.Wait(t, patience); code != 0 {
				t.Errorf("the host that was replaced ended with status %d", code)
			}
			c.Notification(method) // it may have changed meanwhile
			hears("after a restart")

			next.Signal(t, syscall.SIGKILL)
			<-next.Exited()
			p.host("--expose=resources")
			c.Notification(method)
			hears("after the host's death")
		})
	}
}
