package front

// sink takes messages to a client, in the order in which it is given them. What
// belongs to a request goes to the sink of its [Entry]: over stdio that is the
// one [Output] of the session, over HTTP the response to that very request.
// What belongs to no request goes to the sink of the session. No method blocks,
// and all may be called from any goroutine.
//
// Parts below 32 KiB may be changed by the caller afterwards, larger ones not.
// An error says that the client cannot be reached there any more.
type sink interface {
	// Write writes one message that is no answer: a notification, or a request
	// to the client.
	Write(parts ...[]byte) error
	// Answer writes the answer; nothing follows it that belongs to the request.
	Answer(parts ...[]byte) error
	// Hold is Answer for one of a burst of answers, which may wait for the next
	// one or for Release.
	Hold(line []byte)
	// Release writes what is held back.
	Release()
	// Drop says that the request gets no answer, since its client gave it up.
	Drop()
}

var _ sink = (*Output)(nil)

// Answer implements sink.
func (o *Output) Answer(parts ...[]byte) error { return o.Write(parts...) }

// Drop implements sink.
func (o *Output) Drop() {}
