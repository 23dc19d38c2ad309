// Package liveview is the live view of a running host in a terminal: its
// actors with their states, the pool, and the messages as they come.
//
// What it may cost is bounded: [Kept] records are kept, whatever the host
// sends, and the screen is drawn at most [FramesPerSecond] times a second. What
// finds no room is counted and shown as dropped.
//
// What stands in a record is taken for hostile: servers choose names and texts.
// Nothing reaches the screen before it is bounded in length and rid of control
// and direction characters.
package liveview
