// Package audit is the host's audit log: one line of JSON for every execution
// of a tool and every provisioning decision.
//
// Each line carries the hash of the one before, over rotations and restarts, and
// a small head file names the last one, so that [Verify] sees a changed, missing,
// moved or cut line. docs/AUDIT.md says what the format is, and what such a
// chain cannot show.
//
// [Log.Append] never waits for the disk: a goroutine of the log writes, and what
// finds no room is counted in the log itself.
package audit
