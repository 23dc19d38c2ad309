package messages

import (
	"fmt"
	"strconv"
	"strings"
)

// ArgsInCommandError is among the causes of why a server was not started: the command of its
// entry is a line for a shell, and no program has that name.
type ArgsInCommandError struct{ Line string }

// FindArgs returns what is wrong with a command that is not there, if it holds its
// arguments too; nil: it does not look so. found reports whether there is a program of
// such a name: a path with blanks may be right but for the file.
func FindArgs(command string, found func(program string) bool) *ArgsInCommandError {
	words := strings.Fields(command)
	if len(words) < 2 || strings.ContainsAny(words[0], `/\`) && !found(words[0]) {
		return nil
	}
	return &ArgsInCommandError{Line: command}
}

// Error says what is wrong.
func (e *ArgsInCommandError) Error() string {
	return fmt.Sprintf("the arguments are in the command %q", e.Line)
}

// Advice says how the entry is to be written.
func (e *ArgsInCommandError) Advice() string {
	words := strings.Fields(e.Line)
	if strings.ContainsAny(e.Line, `"'`) { // where its words end only a shell knows
		return fmt.Sprintf(`Arguments go into "args", one word each: "command" is %q alone.`, words[0])
	}
	for i, w := range words {
		words[i] = strconv.Quote(w)
	}
	return fmt.Sprintf(`Arguments go into "args": {"command": %s, "args": [%s]}.`, words[0], strings.Join(words[1:], ", "))
}
