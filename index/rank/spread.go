package rank

import "math/bits"

// spread reorders the first hits of a query with several needs: each
// next one is that with the greatest value after what it repeats is
// discounted, a document of whose words of the query all are those of hits
// before it losing [repeatCost]. It is the greedy choice of Carbonell & Goldstein
// 1998, "The Use of MMR", with the words of the query for likeness, as in
// Santos, Macdonald & Ounis 2010 (xQuAD).
func (ix *Index) spread(b *board, limit int) {
	var covered uint64
	order := b.order[:min(len(b.order), limit+2*maxDiverse)]
	for i := range min(len(order), limit, maxDiverse) {
		best, most := i, -1.0
		for j := i; j < len(order); j++ {
			r := order[j]
			if r.class != order[i].class || r.literal != order[i].literal || r.value <= most {
				break
			}
			v := r.value
			if m := b.masks[r.doc]; m != 0 && r.class == 2 {
				v *= 1 - repeatCost*float64(bits.OnesCount64(m&covered))/float64(bits.OnesCount64(m))
			}
			if v > most {
				best, most = j, v
			}
		}
		chosen := order[best]
		copy(order[i+1:best+1], order[i:best])
		order[i] = chosen
		covered |= b.masks[chosen.doc]
	}
}
