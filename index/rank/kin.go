package rank

import (
	"hash/maphash"
	"strings"
	"sync"
)

const (
	// kinship is what a word counts that means about the same as one of the
	// query.
	kinship = 0.2
	// standIn is what it counts where no tool uses the query's own word.
	standIn = 0.6
)

// verbs maps the hash of a verb to those of its kin. The groups are what
// APIs call their few kinds of actions.
var verbs = kin(
	"create add make generate",
	"get show retrieve fetch read view describe",
	"list enumerate show",
	"update modify edit change set",
	"delete remove drop destroy erase",
	"search find look lookup query",
	"send post",
	"run execute invoke",
	"check validate verify",
)

// things maps the hash of a noun, an abbreviation or a command to those of what
// else people call the same.
var things = kin(
	"folder directory dir",
	"picture image photo",
	"mail email",
	"website site webpage page",
	"url link",
	"bug issue ticket",
	"meeting appointment event",
	"repository repo",
	"database db",
	"document doc",
	"application app",
	"configuration config settings",
	"environment env",
	"directory mkdir",
	"list ls",
	"delete rm",
	"move mv rename",
	"copy cp duplicate",
	"save store write",
	"rain weather forecast",
	"song track music",
	"movie film video",
	"client customer",
	"phone telephone call",
	"cost price",
	"job task",
)

// kin makes the map with the first search: a start has no time for it.
func kin(groups ...string) func() map[uint64][]uint64 {
	return sync.OnceValue(func() map[uint64][]uint64 {
		m := map[uint64][]uint64{}
		for _, group := range groups {
			words := strings.Fields(group)
			for _, a := range words {
				for _, b := range words {
					if a != b {
						h := maphash.String(seed, stem(a))
						m[h] = append(m[h], maphash.String(seed, stem(b)))
					}
				}
			}
		}
		return m
	})
}
