// Package e2e holds nothing but tests: they drive the real metamcp binary as a
// real client over stdio, with real servers behind it, and judge by what comes
// out of its pipes and by what the process table shows.
package e2e
