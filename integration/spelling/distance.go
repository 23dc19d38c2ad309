// Package spelling says how far apart two names are.
package spelling

// Distance counts insertions, deletions, changes and swaps of neighbours between
// a and b, in bytes, where no byte is changed twice (the optimal string alignment
// distance). It takes time and memory of len(a) × len(b) and of len(b).
func Distance(a, b string) int { return distance([]byte(a), []byte(b)) }

// DistanceOfRunes is Distance in runes and not in bytes.
func DistanceOfRunes(a, b []rune) int { return distance(a, b) }

// short is the longest b that is compared without an allocation, since the search
// compares a misspelt word with many.
const short = 48

func distance[letter byte | rune](a, b []letter) int {
	width := len(b) + 1
	var few [3 * (short + 1)]int
	rows := few[:]
	if 3*width > len(rows) {
		rows = make([]int, 3*width)
	}
	before, row, next := rows[:width], rows[width:2*width], rows[2*width:3*width]
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := row[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			next[j] = min(row[j]+1, next[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
