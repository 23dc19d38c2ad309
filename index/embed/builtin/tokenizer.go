package builtin

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// maxTokens is what the model was trained to see of a text.
	maxTokens = 128
	// unknown is the token of what no piece stands for.
	unknown int32 = 0
	// spaceMark stands for a space in the pieces of the vocabulary.
	spaceMark = '\u2581'
)

// A tokenizer cuts texts into the pieces of a SentencePiece unigram
// vocabulary (Kudo, "Subword Regularization", 2018, section 3.2): of all ways
// to cut a text it takes the one with the highest sum of the pieces' log
// probabilities, found by the Viterbi algorithm. It does what the tokenizer of
// the npm package @energetic-ai/embeddings 0.2.0 does, for text that
// [prepare] has made ready. It is safe for concurrent use.
type tokenizer struct {
	pieces map[string]piece
	// longest is the number of runes of the longest piece.
	longest int
	// space is the token of a space before what no piece stands for.
	space int32
}

type piece struct {
	id    int32
	score float64
}

// newTokenizer reads the vocabulary section: for each piece, in the order of
// the token numbers, its score (float64), its length in bytes (uint8), and its
// UTF-8 text. Pieces that no text is cut into have no text.
func newTokenizer(section string) (*tokenizer, error) {
	t := &tokenizer{pieces: make(map[string]piece, 8192)}
	for id := int32(0); section != ""; id++ {
		if len(section) < 9 || len(section) < 9+int(section[8]) {
			return nil, errors.New("its vocabulary is cut off")
		}
		n := 9 + int(section[8])
		if text := section[9:n]; text != "" {
			t.pieces[text] = piece{id: id, score: math.Float64frombits(binary.LittleEndian.Uint64(stringBytes(section)))}
			t.longest = max(t.longest, utf8.RuneCountInString(text))
		}
		section = section[n:]
	}
	if t.longest == 0 {
		return nil, errors.New("its vocabulary is empty")
	}
	t.space = t.pieces[string(spaceMark)].id
	return t, nil
}

// prepare makes a text ready for [tokenizer.tokens]: white space, control
// characters and invalid UTF-8 become one space each run, the ends are
// trimmed, invisible format characters go, the rest is brought into normalization form NFKC, and what is
// beyond maxTokens of the longest pieces is cut.
func (t *tokenizer) prepare(text string) string {
	limit := maxTokens * t.longest
	var b strings.Builder
	b.Grow(min(len(text), limit))
	runes, space := 0, false
	for i, r := range text {
		if r == utf8.RuneError {
			// An encoded U+FFFD counts as invalid too: it says the same.
			r = ' '
		}
		if unicode.Is(unicode.Cf, r) {
			continue
		}
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			space = true
			continue
		}
		if runes >= limit {
			break
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
			runes++
		}
		space = false
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
		} else {
			b.WriteString(text[i : i+utf8.RuneLen(r)])
		}
		runes++
	}
	return norm.NFKC.String(b.String())
}

// tokens returns the token numbers of a text that prepare has made ready, at
// most maxTokens. Neighbouring unknown ones are one.
func (t *tokenizer) tokens(text string) []int32 {
	if text == "" {
		return nil
	}
	marked := string(spaceMark) + strings.ReplaceAll(text, " ", string(spaceMark))
	// at[i] is where rune i begins; at[n] is the end. NFKC makes up to 18
	// runes of one, so the limit of prepare is applied again.
	n := min(utf8.RuneCountInString(marked), maxTokens*t.longest+1)
	at := make([]int, n+1)
	i := 0
	for pos := range marked {
		at[i] = pos
		if i == n {
			break
		}
		i++
	}
	if i < n || at[n] == 0 {
		at[n] = len(marked)
	}

	best := make([]float64, n+1)
	// last[i] is the piece that ends before rune i in the best cut of the
	// runes before it, and length[i] its number of runes.
	last := make([]int32, n+1)
	length := make([]int, n+1)
	for i := range length {
		length[i] = 1
	}
	for i := range n {
		found := false
		for j := i + 1; j <= min(n, i+t.longest); j++ {
			p, ok := t.pieces[marked[at[i]:at[j]]]
			if !ok {
				continue
			}
			found = true
			// The reference takes 0 for "not reached", and of equal sums the
			// one that begins later, which is the one found last here.
			if s := p.score + best[i]; best[j] == 0 || s >= best[j] {
				best[j], last[j], length[j] = s, p.id, j-i
			}
		}
		if !found && (best[i+1] == 0 || best[i] >= best[i+1]) {
			best[i+1], last[i+1], length[i+1] = best[i], unknown, 1
		}
	}

	var reversed []int32
	for i := n; i > 0; i -= length[i] {
		if k := len(reversed); k > 0 && reversed[k-1] == unknown && last[i] == unknown {
			continue
		}
		reversed = append(reversed, last[i])
	}
	out := make([]int32, 0, min(len(reversed), maxTokens))
	for i := len(reversed) - 1; i >= 0 && len(out) < maxTokens; i-- {
		out = append(out, reversed[i])
	}
	return out
}

// known reports whether any of the tokens means something to the model.
func (t *tokenizer) known(tokens []int32) bool {
	for _, id := range tokens {
		if id != unknown && id != t.space {
			return true
		}
	}
	return false
}
