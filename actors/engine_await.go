package actors

import (
	"context"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// await waits for what an actor says on reply, or for its being closed. It fails where
// ctx ends first, with the error of that, and where the runtime ends first, after which
// nobody answers, with SHUTTING_DOWN.
func await[T any](ctx context.Context, e *Engine, reply <-chan T) (T, error) {
	var none T
	select {
	case answer := <-reply:
		return answer, nil
	case <-ctx.Done():
		return none, ctx.Err()
	case <-e.rootDone:
	case <-e.left:
	}
	select { // what was said before the end counts
	case answer := <-reply:
		return answer, nil
	default:
		return none, ShutDown()
	}
}

// ShutDown is the error for who wants something of a runtime that has ended.
func ShutDown() *messages.Error {
	err := supervision.ShuttingDown("")
	err.Message = "metamcp has shut down, and nothing of it answers any more"
	return err
}
