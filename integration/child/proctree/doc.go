// Package proctree finds the processes that belong to a child: its process
// group, whoever carries its marker in the environment, and all that they
// started since.
//
// It imports nothing but light packages of the standard library on Linux: the
// watchdog uses it and runs before the rest of the binary is initialised.
//
// What it cannot find: on Linux a descendant that left the group, cleared its
// environment and whose parent is gone, or that changed its user; on darwin,
// where environments are not read, any descendant that left the group and
// whose parent is gone. On Windows a job object does the work and this package
// finds nothing.
package proctree
