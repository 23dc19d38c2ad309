package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/messages"
)

// secrets looks whether the store can be used, and has what the configuration
// asks for. No value is looked at but those, and none is shown.
func (p *Patient) secrets(dir string) []Result {
	store := secrets.New(dir)
	list, err := store.List()
	if err != nil {
		return []Result{{
			Status: Fail, Found: err.Error(), Why: "Servers whose entry names a ${secret:NAME} are not started.", Fix: "chmod 600 " + messages.ShellWord(store.Path()) + "   (where it is open to others)",
		}}
	}
	stored := map[string]bool{}
	inKeyring := 0
	for _, e := range list {
		stored[e.Name] = true
		if e.Place == secrets.InKeyring {
			inKeyring++
		}
	}
	found := "no secrets are stored"
	if len(list) > 0 {
		found = fmt.Sprintf("%s in the keyring, %d in %s", count(inKeyring, "secret"), len(list)-inKeyring, store.Path())
	}
	results := []Result{{Status: OK, Found: found}}
	users := p.Config.SecretUsers()
	for _, name := range slices.Sorted(maps.Keys(users)) {
		by := make([]string, 0, len(users[name]))
		for _, user := range users[name] {
			by = append(by, cmp.Or(user, "a setting"))
		}
		r := Result{Subject: name, Why: "Used by " + strings.Join(by, ", ") + "; without it that is not started, or not set.", Fix: "metamcp secrets set " + name}
		if !stored[name] {
			r.Status, r.Found = Fail, "it is not stored"
			results = append(results, r)
			continue
		}
		if _, err := store.Get(name); err != nil && !errors.Is(err, secrets.ErrNotFound) {
			r.Status, r.Found = Fail, err.Error()
			results = append(results, r)
		}
	}
	return results
}
