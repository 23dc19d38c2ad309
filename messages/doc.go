// Package messages holds what the rooms of metamcp say to each other: plain
// structs, small functions on them and the interfaces of ports, which every
// other package may import and which import nothing of ours.
//
// A value is immutable from the moment it is sent, but for three things: a [Burst],
// which requests share; atomic values, such as those that say who took a [Call] and
// that its caller gave up; and the fields of a Call and a [Contact] that are said to
// be somebody's. Only whoever has the message at that moment writes these, and nobody
// else reads them. Byte slices in a value may alias a buffer that belongs to the
// message alone; whoever receives it may read them for as long as it likes and write
// to none of them.
package messages
