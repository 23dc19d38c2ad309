package supervision

import (
	"fmt"

	"github.com/metamcp/metamcp/messages"
)

// describeListing is Describe for a child that is connected and did not list its tools.
func describeListing(server string, ev messages.Evidence) *messages.Error {
	err := Describe(server, ev)
	f := finding{server: server, class: err.Class, ev: ev, text: evidenceText(ev)}
	cause := f.cause()
	if ev.Timeout && ev.Text != "" {
		cause = ev.Text // which says for what and for how long it was waited
	}
	err.Message = fmt.Sprintf("server %q is connected but did not list its tools (%s): %s", server, err.Class, oneLine(cause))
	// The process lives, and the url is right: it was spoken with.
	if ev.Advice == "" && (err.Class == messages.ClassOther || err.Class == messages.ClassStdioExit) {
		err.Hint = "This is a fault of the server; its log may say more."
		if ev.Remote {
			err.Hint = "This is a fault of the server: tell whoever runs it."
		}
	}
	return err
}
