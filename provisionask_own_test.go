package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/messages"
)

// silentClient shows its user what it is asked, and may have vanished since.
type silentClient struct{ asked, withdrawn []uint64 }

func (c *silentClient) Ask(_ uint64, list []*messages.Question) {
	for _, q := range list {
		c.asked = append(c.asked, q.ID)
	}
}

func (c *silentClient) Withdraw(_ uint64, list []*messages.Question, _ string) {
	for _, q := range list {
		c.withdrawn = append(c.withdrawn, q.ID)
	}
}

func (*silentClient) Notify(uint64, string, json.RawMessage) {}

// A form that nobody answers is withdrawn when the time for an answer is over: its client
// may have vanished, and its request would keep the session for good.
func TestAFormIsNotWaitedForWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 24*time.Hour, errors.New("it is waited for without end"))
		defer cancel()
		client, began := &silentClient{}, time.Now()
		answer := make(questionPort, 1)
		got, err := askForm(ctx, client, 1, &messages.Question{ID: 7, Method: messages.MethodElicit, Reply: answer}, answer)
		if took := time.Since(began); got != nil || !errors.Is(err, context.DeadlineExceeded) || took != actors.AskPatience {
			t.Errorf("%+v, %v after %v: %v", got, err, took, context.Cause(ctx))
		}
		if !slices.Equal(client.asked, []uint64{7}) || !slices.Equal(client.withdrawn, []uint64{7}) {
			t.Errorf("asked %v, withdrawn %v", client.asked, client.withdrawn)
		}
	})
}
