package actors

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// listsAs makes a child answer tools/list with what answer says.
func listsAs(answer func(l *fakeLink, m rpcLine)) *script {
	return &script{answers: func(l *fakeLink, m rpcLine) bool {
		if m.Method != methodToolsList {
			return false
		}
		answer(l, m)
		return true
	}}
}

func sayOf(what string) func(l *fakeLink, m rpcLine) {
	return func(l *fakeLink, m rpcLine) { l.say(what + " " + string(m.ID)) }
}

// TestUnlistedServersAreLeftAlone: a server that starts and then does not list its tools
// fails like one that does not start. Once it has failed often enough nobody waits for it
// or asks it again until its cooldown is over.
func TestUnlistedServersAreLeftAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		script *script
		class  messages.Class
		says   string
	}{
		"silent":  {listsAs(func(*fakeLink, rpcLine) {}), messages.ClassOffline, "it did not answer tools/list within 30ms"},
		"broken":  {listsAs(sayOf("broken")), messages.ClassOther, "cannot be read: it has no end"},
		"huge":    {listsAs(sayOf("huge")), messages.ClassOther, "larger than 64 MiB"},
		"trouble": {listsAs(sayOf("trouble")), messages.ClassOffline, "unexpected EOF"},
		"refused": {listsAs(func(l *fakeLink, m rpcLine) {
			l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32603,"message":"not today"}}`)
		}), messages.ClassOther, "not today (-32603)"},
		"no answer": {listsAs(func(l *fakeLink, m rpcLine) {
			l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":7}`)
		}), messages.ClassOther, "its answer to tools/list is no result"},
		"no list": {listsAs(func(l *fakeLink, m rpcLine) { l.answer(m.ID, `{"tools":7}`) }), messages.ClassOther, "is not understood"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, breaks(time.Hour))
			tt.script.stderr = []string{"waiting for the database"}
			r.add("a", tt.script, func(s *messages.ServerSpec) {
				if name == "silent" {
					s.Timeout = 30 * time.Millisecond
				}
			})
			fromChild := name != "no list" // that one is the index's, which has no log
			for range 2 {
				err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection)
				if err.Class != tt.class || !strings.Contains(err.Message, tt.says) || slices.Contains(err.Details, "waiting for the database") != fromChild {
					t.Errorf("%+v", err)
				}
			}
			if err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeCircuitOpen); err.Class != tt.class || err.RetryAfter <= 0 {
				t.Errorf("%+v", err)
			}
			if st := r.status("a"); st.State != messages.StateFailed || !st.Connected || st.LastError == nil || st.RetryAt.IsZero() {
				t.Errorf("status %+v", st)
			}
			if asked := len(r.f.lines("a", methodToolsList)); asked != 2 || r.f.started("a") != 1 {
				t.Errorf("%d starts, and it was asked %d times for its tools; want one and two", r.f.started("a"), asked)
			}
		})
	}
}

// TestServersThatMayHaveNoTools are asked each time, and fail by nothing of that.
func TestServersThatMayHaveNoTools(t *testing.T) {
	refuse := func(code string) *script {
		return listsAs(func(l *fakeLink, m rpcLine) {
			l.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":` + code + `,"message":"not here"}}`)
		})
	}
	quiet := func(tools *script) *script {
		return &script{answers: func(l *fakeLink, m rpcLine) bool {
			if m.Method == methodInitialize {
				l.answer(m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"fake","version":"1"}}`)
				return true
			}
			return tools.answers(l, m)
		}}
	}
	for name, script := range map[string]*script{
		"it does not know the request": refuse("-32601"), "it has something else": quiet(refuse("-32603")),
		"it has no place for the request": quiet(listsAs(sayOf("status 405"))),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, breaks(time.Hour))
			r.add("a", script, nil)
			for range 4 {
				if err := r.wantCode(r.do("a", "do", doArgs{}), messages.CodeConnection); !strings.Contains(err.Message, "not here") {
					t.Errorf("%+v", err)
				}
			}
			if st := r.status("a"); st.Breaker != "closed" || st.LastError != nil || !st.Connected {
				t.Errorf("status %+v", st)
			}
		})
	}
}
