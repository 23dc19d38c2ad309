package rank

import (
	"strings"
	"sync"
)

// weakness is what a weak word of a query counts, where others count 1.
const weakness = 0.4

// weakWords are common words of requests that say little about which tool is
// sought, whatever their share in a catalog is: in a small one every word is
// rare. They count in full in what tools say.
var weakWords = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`
		find give tell get show provide look see know make take use using used go try
		information info detail thing something anything someone way related specific different various certain
		one two three first next last also available based existing named called able allow possible
		latest recent recently current currently new best good great top
		interested planning plan trying understand think sure recommend suggest recommendation suggestion assist assistance
		user people time today now day`) {
		m[stem(w)] = true
	}
	return m
})
