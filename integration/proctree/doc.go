// Package proctree measures processes together with those that they started:
// how much memory they take, and how much time of a processor they took. It
// looks only when it is asked, and only Linux tells.
package proctree
