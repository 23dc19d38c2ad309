// Package sandbox runs scripts of strangers in worker processes.
//
// A [Launcher] starts the processes; a [Worker] is one of them, which takes one
// [Script] at a time and tells an [Ear] what the script asks for, what it says
// on its console and how it ended. What runs inside the process is package
// worker; what the sandbox promises, and how, is docs/SANDBOX.md.
//
// The engine in the worker is trusted with nothing: it cannot open files, reach
// a network or start processes, its memory and time are bounded, and whatever
// it does the host can kill it.
package sandbox
