// Package pins remembers what the tools of servers said when a person accepted
// them, so that a server that says something else later is noticed: the first
// listing of a server is accepted, a later one that differs is shown as a diff
// until somebody accepts it. It also looks for texts in definitions by which
// somebody may want to give orders to a model.
//
// What is accepted is in one file per server in a folder of the state folder,
// pins/NAME.json. Files are replaced whole, and whoever changes one holds a lock
// that all hosts and commands share. docs/PINS.md says what counts as a change.
package pins
