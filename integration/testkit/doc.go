// Package testkit is what the end-to-end tests stand on: a metamcp binary that
// is built once per test process, processes that are certain to be gone when
// their test is, clients that speak to them, and a view of the process table
// that does not rely on anybody's own books.
//
// Every function that takes a [testing.TB] fails the test instead of returning
// an error, and cleans up after itself when the test ends. They are to be called
// from the test's own goroutine unless they say otherwise.
package testkit
