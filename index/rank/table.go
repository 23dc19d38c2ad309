package rank

// A table numbers hashes in order of appearance. It is a hash table with
// open addressing; the keys are spread already.
type table struct {
	keys []uint64
	ids  []int32 // 1 + number; 0: free
	n    int
}

func newTable(expected int) *table {
	size := 64
	for size < 2*expected {
		size *= 2
	}
	return &table{keys: make([]uint64, size), ids: make([]int32, size)}
}

// get returns the number of a key, or -1.
func (t *table) get(key uint64) int {
	mask := uint64(len(t.keys) - 1)
	for at := key & mask; ; at = (at + 1) & mask {
		if t.ids[at] == 0 {
			return -1
		}
		if t.keys[at] == key {
			return int(t.ids[at]) - 1
		}
	}
}

// add returns the number of a key, which may be new.
func (t *table) add(key uint64) (id int, fresh bool) {
	mask := uint64(len(t.keys) - 1)
	at := key & mask
	for t.ids[at] != 0 {
		if t.keys[at] == key {
			return int(t.ids[at]) - 1, false
		}
		at = (at + 1) & mask
	}
	if 2*(t.n+1) > len(t.keys) {
		bigger := newTable(2 * t.n)
		bigger.n = t.n
		for i, id := range t.ids {
			if id != 0 {
				bigger.put(t.keys[i], id)
			}
		}
		*t = *bigger
		return t.add(key)
	}
	t.n++
	t.keys[at], t.ids[at] = key, int32(t.n)
	return t.n - 1, true
}

func (t *table) put(key uint64, id int32) {
	mask := uint64(len(t.keys) - 1)
	at := key & mask
	for t.ids[at] != 0 {
		at = (at + 1) & mask
	}
	t.keys[at], t.ids[at] = key, id
}
