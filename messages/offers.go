package messages

import (
	"encoding/json"
	"slices"
)

// Offers is what a server said in the handshake that it has. The zero value
// says nothing, which is what is known of a server that never ran.
type Offers uint8

// The single offers.
const (
	// OffersKnown is set in every value that comes from a handshake.
	OffersKnown Offers = 1 << iota
	OffersTools
	OffersResources
	// OffersSubscriptions to single resources.
	OffersSubscriptions
	OffersPrompts
	OffersCompletions
	// OffersChanges says that it announces changes of a list by subscription or
	// unasked.
	OffersChanges
)

// Known says whether the server was asked at all.
func (o Offers) Known() bool { return o&OffersKnown != 0 }

// Has says whether the server has all of what.
func (o Offers) Has(what Offers) bool { return o&what == what }

// OffersOf reads the capabilities of a handshake, one JSON object or nil.
func OffersOf(capabilities json.RawMessage) Offers {
	type changes struct {
		ListChanged bool `json:"listChanged"`
		Subscribe   bool `json:"subscribe"`
	}
	// A member that is no object is there all the same: that is how some
	// servers write one without details.
	present := func(raw json.RawMessage) (c changes, ok bool) {
		if len(raw) == 0 || string(raw) == "null" || string(raw) == "false" {
			return c, false
		}
		_ = json.Unmarshal(raw, &c)
		return c, true
	}
	o := OffersKnown
	var all map[string]json.RawMessage
	_ = json.Unmarshal(capabilities, &all)
	for name, has := range map[string]Offers{"tools": OffersTools, "resources": OffersResources, "prompts": OffersPrompts, "completions": OffersCompletions} {
		c, ok := present(all[name])
		if !ok {
			continue
		}
		o |= has
		if c.ListChanged {
			o |= OffersChanges
		}
		if c.Subscribe && has == OffersResources {
			o |= OffersSubscriptions
		}
	}
	return o
}

var offerNames = []struct {
	name string
	has  Offers
}{
	{"tools", OffersTools}, {"resources", OffersResources}, {"subscriptions", OffersSubscriptions},
	{"prompts", OffersPrompts}, {"completions", OffersCompletions}, {"changes", OffersChanges},
}

// MarshalJSON writes the offers as a list of words, and null where nothing is
// known.
func (o Offers) MarshalJSON() ([]byte, error) {
	if !o.Known() {
		return []byte("null"), nil
	}
	names := []string{}
	for _, n := range offerNames {
		if o.Has(n.has) {
			names = append(names, n.name)
		}
	}
	return json.Marshal(names)
}

// UnmarshalJSON reads what [Offers.MarshalJSON] writes; words that it does not
// know are left out.
func (o *Offers) UnmarshalJSON(raw []byte) error {
	var names []string
	if err := json.Unmarshal(raw, &names); err != nil {
		return err
	}
	*o = 0
	if names == nil {
		return nil
	}
	*o = OffersKnown
	for _, n := range offerNames {
		if slices.Contains(names, n.name) {
			*o |= n.has
		}
	}
	return nil
}
