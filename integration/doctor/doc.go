// Package doctor finds out why metamcp, or a server behind it, does not work
// on this machine: configuration, commands, state folder, running hosts and
// the configuration files of clients. Each finding says what was seen, why it
// matters and how to mend it. docs/DOCTOR.md lists the checks.
//
// It looks and changes nothing, unless it is asked to mend what is safe to
// mend. It shows no value of a variable, a header or an argument. It starts no
// server; the root package does that and hands the outcome in as a [Start].
package doctor
