package liveview

// ring keeps the newest [Kept] records. Each has a number that never changes,
// from 0 on, so that a cursor stays on its record while others come. The zero
// value is empty.
type ring struct {
	records []record
	first   uint64 // the number of the oldest
	oldest  int    // where it is in records
}

// push adds a record and tells whether the oldest had to go for it.
func (r *ring) push(rec record) (lost bool) {
	if len(r.records) < Kept {
		r.records = append(r.records, rec)
		return false
	}
	r.records[r.oldest] = rec
	r.oldest = (r.oldest + 1) % Kept
	r.first++
	return true
}

// end is the number that the next record gets.
func (r *ring) end() uint64 { return r.first + uint64(len(r.records)) }

// at returns a record that is kept; nil for any other number.
func (r *ring) at(n uint64) *record {
	if n < r.first || n >= r.end() {
		return nil
	}
	return &r.records[(r.oldest+int(n-r.first))%len(r.records)]
}

// all calls yield for each record, the oldest first.
func (r *ring) all(yield func(*record) bool) {
	for n := r.first; n < r.end(); n++ {
		if !yield(r.at(n)) {
			return
		}
	}
}

// drain returns the records, the oldest first, and leaves the ring empty.
func (r *ring) drain() []record {
	if len(r.records) == 0 {
		return nil
	}
	list := r.records
	if r.oldest > 0 {
		list = append(append(make([]record, 0, len(list)), list[r.oldest:]...), list[:r.oldest]...)
	}
	*r = ring{records: make([]record, 0, len(list))} // as many are likely to come again
	return list
}
