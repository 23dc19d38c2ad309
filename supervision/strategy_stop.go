package supervision

import "time"

// StopAlways is the strategy for a child that owns something outside, such as
// a connection with its process: after a panic nobody knows what state that is
// in, so it ends and the next need makes a new one.
type StopAlways struct{}

// Decide returns [Stop].
func (StopAlways) Decide(string, any, time.Time) Directive { return Stop }
