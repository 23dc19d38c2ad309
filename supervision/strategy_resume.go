package supervision

import "time"

// ResumeAlways is the strategy for a child whose state is worth more than the
// one message that it failed on, such as the pool: a restart would end every
// connection below it.
type ResumeAlways struct{}

// Decide returns [Resume].
func (ResumeAlways) Decide(string, any, time.Time) Directive { return Resume }
