// Package limits knows how much of the machine this host and its children may
// have: descriptors, memory, and what one child is given of them.
package limits
