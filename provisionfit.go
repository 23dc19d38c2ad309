package metamcp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// How much is told of a value that a server takes where there is no room for all of it.
const (
	briefText    = 120 // bytes of its description and its default
	briefChoices = 40  // tokens
)

// fitMissing takes over what is missing as far as there is room for it, and leaves as
// much again for the server that needs it.
func (a *ProvisionAnswer) fitMissing(budget *index.Budget) {
	half := index.NewBudget(budget.Left() / 2)
	before := half.Left()
	kept, cut := fitVariables(half, a.missing)
	a.Missing = kept
	budget.Spend(before - half.Left())
	if cut {
		a.noRoom(len(a.missing)-len(a.Missing), "what "+a.Package+" needs")
	}
}

// fitFirst is the first option as far as there is room for it: what else is found is
// left out whole, and without the first there would be nothing.
func (a *ProvisionAnswer) fitFirst(budget *index.Budget, o ProvisionOption) ProvisionOption {
	if budget.Spend(tokens(o)) {
		return o
	}
	all := o.Environment
	o.Environment = nil
	missing := ""
	if tokens(o) > budget.Left() { // the variables are in it, and fixed arguments as long as anybody likes
		o.Install, o.Add, missing = "", "", " and for the commands that add it"
	}
	if tokens(o) > budget.Left() {
		o.Entry, missing = nil, " and for its entry"
	}
	budget.Spend(min(tokens(o), budget.Left()))
	kept, cut := fitVariables(budget, all)
	if o.Environment = kept; cut || missing != "" {
		a.noRoom(len(all)-len(kept), "what "+o.Name+" takes"+missing)
	}
	return o
}

// noRoom says that something is told in part.
func (a *ProvisionAnswer) noRoom(omitted int, what string) {
	a.Omitted += omitted
	left := ""
	if omitted > 0 {
		left = fmt.Sprintf(" (%s left out)", counted(omitted, "value is", "values are"))
	}
	a.Notes = append(a.Notes, "There was no room for all of "+what+left+"; a larger search.budgetTokens shows more.")
}

// fitVariables is as much of what a server takes as there is room for: texts go first,
// those of optional values before others, and names last.
func fitVariables(budget *index.Budget, all []ProvisionVariable) (kept []ProvisionVariable, cut bool) {
	price := func(list []ProvisionVariable) (n int) {
		for i := range list {
			n += tokens(list[i])
		}
		return n
	}
	if budget.Spend(price(all)) {
		return all, false
	}
	kept = slices.Clone(all)
	for _, shorten := range []func(v *ProvisionVariable){
		func(v *ProvisionVariable) {
			v.Description = messages.CutAtWord(v.Description, briefText)
			if len(v.Default) > briefText {
				v.Default = ""
			}
			if tokens(v.Choices) > briefChoices {
				v.Choices = nil
			}
		},
		func(v *ProvisionVariable) {
			if !v.Required {
				v.Description, v.Default, v.Choices = "", "", nil
			}
		},
		func(v *ProvisionVariable) { v.Description, v.Default, v.Choices = "", "", nil },
	} {
		for i := range kept {
			shorten(&kept[i])
		}
		if budget.Spend(price(kept)) {
			return kept, true
		}
	}
	slices.SortStableFunc(kept, func(v, w ProvisionVariable) int { return cmp.Compare(one(w.Required), one(v.Required)) })
	kept, _ = index.Cut(budget, kept, tokens[ProvisionVariable])
	return kept, true
}
