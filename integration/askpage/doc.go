// Package askpage asks a person for values that no client and no model may see,
// on a page in a browser. A page is for one question: its address cannot be
// guessed, the first browser that opens it keeps it, and it ends when it was
// answered, when its time is over, or when nobody waits for it any more.
//
// A page is served on a port of the loopback of its own, or, for people whose
// browser is on another machine, below a public URL by whoever serves that.
package askpage
