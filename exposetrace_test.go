package metamcp

import (
	"sync"
	"testing"

	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/messages"
)

// noRecords is a watcher's writer.
type noRecords struct{}

func (noRecords) WriteRecord(*messages.TraceRecord) error { return nil }
func (noRecords) Flush() error                            { return nil }

// What the host asks servers for all of its clients, their lists and subscriptions, has
// the number of no request: it would be listed as one that has no answer.
func TestListsAndSubscriptionsAreNoRequestsInTheTrace(t *testing.T) {
	t.Parallel()
	e, a, _ := subscribables(t, `"resources"`)
	var numbered, seen sync.Map
	watcher := e.core.Trace().Attach(noRecords{}, func(r *messages.TraceRecord) bool {
		seen.Store(r.Kind+" "+r.Type, true)
		if r.Request != 0 {
			numbered.Store(r.Request, r.Kind+" "+r.Type)
		}
		return false
	})
	p := clientOf(t, e)
	defer p.close()
	if !p.asks(methodSubscribe, &front.Peer{}, nil).granted(t) {
		t.Error("the subscription is refused")
	}
	if a.count(methodResources) == 0 || a.count(methodSubscribe) == 0 {
		t.Error("the server was not asked for both")
	}
	if err := watcher.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, traced := seen.Load("message Call"); !traced {
		t.Error("what it was asked is not in the trace")
	}
	for number, what := range numbered.Range {
		t.Errorf("%v is of request %v", what, number)
	}
}
