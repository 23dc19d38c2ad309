// Package messages holds what the rooms of metamcp say to each other: plain
// structs, small functions on them and the interfaces of ports, which every
// other package may import and which import nothing of ours.
//
// A value is immutable from the moment it is sent. Byte slices in it may alias
// a buffer that belongs to the message alone; whoever receives the message may
// read them for as long as it likes and write to none of them.
package messages
