package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/messages"
)

// installable says that a yes of a person would install it.
func installable(o *metamcp.ProvisionOption) bool { return o.Entry != nil && o.Problem == "" }

// missingOf are the values that an option needs and that nobody has given.
func missingOf(o *metamcp.ProvisionOption) (missing []metamcp.ProvisionVariable) {
	for _, v := range o.Environment {
		if v.Missing {
			missing = append(missing, v)
		}
	}
	return missing
}

// chosenOption asks a person which of the options to install; nil: none. The error is
// that of ctx.
func chosenOption(ctx context.Context, cmd *cobra.Command, a *metamcp.ProvisionAnswer) (*metamcp.ProvisionOption, error) {
	answer := make(chan *metamcp.ProvisionOption, 1)
	go func() { answer <- choose(cmd, cmd.InOrStdin(), cmd.OutOrStdout(), a) }() // a read of a terminal ends with the program
	select {
	case o := <-answer:
		return o, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// choose is [chosenOption] for any reader. What lacks a value is not offered: the line
// that gives it is shown.
func choose(cmd *cobra.Command, in io.Reader, out io.Writer, a *metamcp.ProvisionAnswer) *metamcp.ProvisionOption {
	var offered []*metamcp.ProvisionOption
	for i := range a.Matches {
		o := &a.Matches[i]
		switch missing := missingOf(o); {
		case !installable(o):
		case len(missing) > 0:
			fmt.Fprintf(out, "%s needs %s first: %s\n", printable(o.Name), printable(needsText(missing)), printable(giveLine(cmd, o.Name, missing)))
		default:
			offered = append(offered, o)
		}
	}
	if len(offered) == 0 {
		return nil
	}
	if len(a.Unknown) > 0 {
		fmt.Fprintf(out, "Nobody knows %s, which you named. What follows is something else.\n", printable(strings.Join(a.Unknown, ", ")))
	}
	question := func(o *metamcp.ProvisionOption) string {
		text := "Install " + printable(withVersion(o))
		if len(a.Unknown) > 0 {
			text += ", which is NOT what you named"
		}
		return text
	}
	if len(offered) == 1 {
		if confirmed(in, out, question(offered[0])) {
			return offered[0]
		}
		return nil
	}
	for i, o := range offered {
		fmt.Fprintf(out, "  %d  %s\n", i+1, printable(withVersion(o)))
	}
	fmt.Fprintf(out, "Install which? [1-%d, anything else: none] ", len(offered))
	line, _ := bufio.NewReader(in).ReadString('\n') // an end of input is no yes
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || n < 1 || n > len(offered) {
		return nil
	}
	return offered[n-1]
}

// needsText names values as what they are.
func needsText(missing []metamcp.ProvisionVariable) string {
	names := make([]string, len(missing))
	for i := range missing {
		names[i] = "the " + placeOf(&missing[i]) + " " + missing[i].Name
	}
	return strings.Join(names, ", ")
}

func placeOf(v *metamcp.ProvisionVariable) string {
	if v.Place == "" {
		return "variable"
	}
	return v.Place
}

// giveLine is the command that gives a server what it needs.
func giveLine(cmd *cobra.Command, name string, missing []metamcp.ProvisionVariable) string {
	line, before := "metamcp provision "+messages.ShellWord(name), ""
	for _, v := range missing {
		value := "VALUE"
		if v.Secret || scrub.NameSays(v.Name) {
			secret := secrets.NameFor(v.Name)
			value = "${secret:" + secret + "}"
			before += "metamcp secrets set " + secret + " && "
		}
		line += " --set " + messages.ShellWord(v.Name+"="+value)
	}
	return withSources(cmd, before+line)
}

// unattended says what --yes would do, where nobody could be asked.
func unattended(cmd *cobra.Command, a *metamcp.ProvisionAnswer) string {
	if len(a.Matches) == 0 {
		return "Nothing was installed."
	}
	switch o := &a.Matches[0]; {
	case !installable(o):
		return "Nothing was installed: metamcp cannot install the best of them."
	case o.Gate == "setting" && len(missingOf(o)) > 0:
		return "Nothing was installed; it needs " + needsText(missingOf(o)) + ": " + giveLine(cmd, o.Name, missingOf(o)) + " --yes"
	case o.Gate == "setting":
		return "Nothing was installed; add --yes to install it."
	default:
		return "Nothing was installed, and --yes would not: it installs what the trust file trusts and you name exactly. At a terminal you are asked."
	}
}
