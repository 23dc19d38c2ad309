package config

import (
	"fmt"
	"strings"

	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/messages"
)

// FileOf is the file, or whatever else, in which an entry stands.
func FileOf(spec *messages.ServerSpec) string {
	file, line := spec.Source, ""
	if at := strings.LastIndexByte(file, ':'); at > 0 {
		file, line = file[:at], file[at+1:]
	}
	if line == "" || strings.Trim(line, "0123456789") != "" {
		return spec.Source
	}
	return file
}

// CheckLoop refuses a process that one of the entries of this configuration has started:
// it would start that entry again, and that one the next, without end. A command that ends
// by itself may start the others once, so that a server that is a shell can be told to run
// one; serving says that this is none. Depths beyond [lineage.MaxDepth] are refused too.
// The error is a *messages.Error with code CONFIGURATION_ERROR.
func (c *Config) CheckLoop(serving bool) error {
	if c.Chain.Depth >= lineage.MaxDepth {
		return failure("Let the first of these entries start something else, or give the metamcp that it starts a configuration without them.",
			"this metamcp stands behind %d others, each of which an entry of the one before started, which has no end as a rule: %s", c.Chain.Depth, c.Chain.Way())
	}
	var again []*messages.ServerSpec
	for _, s := range c.Servers {
		if !s.Disabled && c.Chain.Has(FileOf(s), s.Name) {
			again = append(again, s)
		}
	}
	if len(again) == 0 || !serving && len(again) == 1 {
		return nil
	}
	return c.loopError(again[0])
}

// CheckStart refuses to start an entry in a process that the entry itself has started. The
// error is a *messages.Error with code CONFIGURATION_ERROR.
func (c *Config) CheckStart(spec *messages.ServerSpec) error {
	if !c.Chain.Has(FileOf(spec), spec.Name) {
		return nil
	}
	return c.loopError(spec)
}

// LoopAdvice says what to do about an entry that starts metamcp with the file in which it
// stands.
func LoopAdvice(server, file string) string {
	return fmt.Sprintf("Remove the entry %q from %s. If it is there for a client that reads the same file, give metamcp a file of its own: --config FILE", server, file)
}

func (c *Config) loopError(spec *messages.ServerSpec) error {
	file, way := FileOf(spec), ""
	if len(c.Chain.Entries) > 1 {
		way = "; what started what: " + c.Chain.Way()
	}
	return failure(LoopAdvice(spec.Name, file), "the entry %q of %s started this metamcp, which reads that file too and would start the entry again, without end%s", spec.Name, file, way)
}
