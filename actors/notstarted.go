package actors

import (
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// notStarted is the error for a call whose time was over before a place in the pool was
// given to its server, of which st tells. That the server is offline it does not say: it
// was not tried.
func notStarted(server, tool string, st messages.Status) *messages.Error {
	err := &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: server, Tool: tool, Retryable: true,
		Message: strconv.Quote(server) + " was not started in the time that the call allowed: it waited for a place in the pool, and all were taken; the call was not sent",
		Hint:    "Call again with a longer timeoutMs, or once other servers have finished, with fewer calls at a time. The operator can raise pool.poolSize.",
	}
	if left := time.Until(st.RetryAt); left > 0 && st.LastError != nil {
		err.Class, err.Details, err.RetryAfter = st.LastError.Class, st.LastError.Details, left
		err.Message = strconv.Quote(server) + " was not started in the time that the call allowed: it is not started again for another " + left.Round(time.Millisecond).String() +
			", since it failed; the call was not sent; last error: " + st.LastError.Message
		err.Hint = "Call again after that, or with a longer timeoutMs."
	}
	return err
}

// noTurnToStart is the error for a call whose time was over while its server had a place
// and waited for others that were being started.
func (c *connection) noTurnToStart(call *messages.Call) *messages.Error {
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: c.spec.Name, Tool: call.Tool, Retryable: true,
		Message: strconv.Quote(c.spec.Name) + " was not started in the time that the call allowed: no more than " + strconv.Itoa(cap(c.deps.starts)) +
			" are started at once, and others came before it; the call was not sent",
		Hint: "Call again with a longer timeoutMs. The operator can raise pool.maxStarts.",
	}
}
