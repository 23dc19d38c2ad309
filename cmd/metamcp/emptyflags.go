package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mayBeEmpty are the flags that an empty value is something else for than no flag at all.
var mayBeEmpty = map[string]bool{"arg": true, "context": true}

// refuseEmptyValues has a flag that is given nothing be wrong usage: it comes of a
// shell's variable that is not set, and the command would be about the default file, or
// about all servers, in the place of the one that was meant.
func refuseEmptyValues(cmd *cobra.Command, _ []string) error {
	if cmd.Name() == "demo-server" {
		return nil // whose flags say what it shall do wrong
	}
	var wrong error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && !mayBeEmpty[f.Name] && wrong == nil {
			wrong = usageError{fmt.Errorf("--%s has an empty value; give it one, or leave it out (is a variable of the shell not set?)", f.Name)}
		}
	})
	return wrong
}
