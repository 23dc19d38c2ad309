package actors

import (
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// Renew has the server list its tools where what is known of it is not final, since a call
// or a question that names it would be refused by that. The port hears exactly once; nil: what the catalog
// has by then stands.
func (e *Engine) Renew(known *index.ServerEntry, port messages.ContactPort) {
	server := known.Toolset.Server
	entry, ok := e.dir.Lookup(server)
	if !ok {
		port.Contacted(0, e.ServerNotFound(server))
		return
	}
	announced := e.present(entry, known.Toolset)
	e.contact(entry, &messages.Contact{Refresh: !announced, Announced: announced, ForCall: true, Reply: port})
}

// Retry has the server list its tools once more in the background where a child has announced
// a change of them and did not list it. Whoever has missed a tool says so by calling it.
func (e *Engine) Retry(server string) {
	if entry, ok := e.dir.Lookup(server); ok && entry.Missed() != nil {
		e.retry(entry)
	}
}

// retry is at a pace at which a list that changes is read.
func (e *Engine) retry(entry *supervision.Entry) {
	if entry.MayRetry(time.Now(), firstPause) {
		e.contact(entry, &messages.Contact{Retry: true, Background: true, Reply: nobody{}})
	}
}

// doubted is the refusal of a call by what is known of its server. Where that lacks a change
// that a child has announced and did not list, the error says so, and that is asked for once
// more: who calls again may find it.
func (e *Engine) doubted(server string, err *messages.Error) *messages.Error {
	if err.Code != messages.CodeToolNotFound && err.Code != messages.CodeValidation {
		return err // the list does not decide that
	}
	entry, ok := e.dir.Lookup(server)
	if !ok {
		return err
	}
	why := entry.Missed()
	if why == nil {
		return err
	}
	e.retry(entry)
	own := *err
	own.Message += "; that is by an older list: it has announced a change of its tools since, and the new list could not be had: " + why.Message
	own.Hint += " The server is asked for its list once more, so that it may help to call again in a moment."
	own.Retryable = own.Retryable || own.Code == messages.CodeToolNotFound
	return &own
}
