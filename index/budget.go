package index

// EstimateTokens guesses, rather too high than too low, how many tokens a text
// is to a model: one for every three and a half bytes of ASCII, which is what
// compact JSON takes (prose takes four and more), and one for every two bytes
// of anything else.
func EstimateTokens[T string | []byte](s T) int {
	other := 0
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			other++
		}
	}
	ascii := len(s) - other
	return (ascii*2+6)/7 + (other+1)/2
}

// A Budget is what is left of an answer's tokens. The zero value has none. It
// belongs to one goroutine.
type Budget struct {
	left int
}

// NewBudget returns a budget of so many tokens; below zero counts as zero.
func NewBudget(tokens int) *Budget { return &Budget{left: max(tokens, 0)} }

// Left is how many tokens are left, never below zero.
func (b *Budget) Left() int { return b.left }

// Spend spends tokens, or nothing where that is more than is left.
func (b *Budget) Spend(tokens int) bool {
	if tokens > b.left {
		return false
	}
	b.left -= max(tokens, 0)
	return true
}

// Cut returns the longest beginning of items that the budget pays for, and how
// many items are left out. It stops at the first one that is too dear, so that
// what is left out is always the end of the list. cost gives an item's tokens.
func Cut[T any](b *Budget, items []T, cost func(T) int) (kept []T, omitted int) {
	for i, item := range items {
		if !b.Spend(cost(item)) {
			return items[:i:i], len(items) - i
		}
	}
	return items, 0
}
