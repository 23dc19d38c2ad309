package metamcp

import (
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestSearchesOfOneClientAreBounded(t *testing.T) {
	shared := newSearches()
	var left []func()
	for range maxSearches {
		l, refused := shared.join(1)
		if refused != nil {
			t.Fatal(refused)
		}
		left = append(left, l)
	}
	_, refused := shared.join(1)
	if refused == nil || refused.Code != messages.CodePoolSaturated || !refused.Retryable || refused.Hint == "" {
		t.Errorf("one more: %+v", refused)
	}
	other, refused := shared.join(2)
	if refused != nil {
		t.Fatalf("another client: %v", refused)
	}
	other()
	for _, l := range left {
		l()
	}
	if len(shared.joined) > 0 {
		t.Errorf("still counted: %v", shared.joined)
	}
}
