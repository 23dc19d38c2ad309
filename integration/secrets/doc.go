// Package secrets keeps what a user does not want to write into a configuration:
// the values of ${secret:NAME}. They are in the keyring of the operating system
// where there is one, else in a file of the state folder that nobody else may
// read. The file also holds the names of what is in the keyring, since keyrings
// cannot be asked for them; without a name in it no keyring is opened.
//
// Nothing here puts a value into an error.
package secrets
