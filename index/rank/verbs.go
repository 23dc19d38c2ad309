package rank

import (
	"hash/maphash"
	"strings"
)

// kinship is what a verb counts that means about the same as one of the query.
const kinship = 0.2

// verbs maps the hash of a verb to those of its kin. The groups are what
// APIs call their few kinds of actions.
var verbs = func() map[uint64][]uint64 {
	m := map[uint64][]uint64{}
	for _, group := range []string{
		"create add make generate",
		"get show retrieve fetch read view describe",
		"list enumerate show",
		"update modify edit change set",
		"delete remove drop destroy erase",
		"search find look lookup query",
		"send post",
		"run execute invoke",
		"check validate verify",
	} {
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
}()
