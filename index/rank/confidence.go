package rank

import "math"

const (
	// maxAlike bounds what one number of the vectors can do.
	maxAlike = 6
	// meaningAlone is the greatest log-odds of a hit by its meaning alone.
	meaningAlone = -0.4
)

// confidence returns how likely it is that the best hit is what the query
// means, in [0,1]. strong is the share of the greatest keyword score that the
// query could have had, words that no tool uses included, and alike is how many
// standard deviations the cosine is above the mean; without vectors it is not read.
//
// It is a logistic regression (Platt 1999) with rounded coefficients, fitted on
// the development part of the retrieval benchmark: right first hits against
// the first hits of queries of one dataset on the tools of another, each
// dataset weighing the same. So 0.5 is where both are as likely. With
// vectors, 4 of 5 right first hits there are above it, and 1 of 10 of those
// that are of another world. Of hits that share no word with the query the
// regression has seen too few: they are worth a look, and never likelier right
// than wrong.
func confidence(strong, alike float64, vectors bool) float64 {
	strong = math.Sqrt(min(1, max(0, strong)))
	x := 16*strong - 5.5
	if vectors {
		alike = min(maxAlike, max(0, alike))
		x = max(12*strong+0.8*alike-7, min(alike-5.5, meaningAlone))
	}
	return 1 / (1 + math.Exp(-x))
}
