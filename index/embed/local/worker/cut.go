package worker

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/metamcp/metamcp/index/embed/models/gguf"
)

// batchTokens is how many tokens llama.cpp takes at once (n_ubatch), as
// kelindar/search starts it. More of them do not fail: they abort the process.
const batchTokens = 512

// space is how the vocabularies of GGUF files mark the beginning of a word.
const space = "▁"

// A cutter shortens texts to what a model can take. It counts tokens itself,
// since kelindar/search tells their number only afterwards. The count is never
// below that of llama.cpp: exact for ASCII, the number of characters otherwise.
type cutter struct {
	max int // tokens, with the two that frame every text
	// vocabulary is nil for other tokenizers than WordPiece, whose tokens are
	// at least one byte long each.
	vocabulary map[string]bool
	longest    int // bytes of the longest token
	bare       int // what a word of other characters may cost more: 1 where the mark is a token of its own
}

func newCutter(path string) (*cutter, error) {
	info, err := gguf.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &cutter{max: batchTokens}
	if info.ContextLength > 0 {
		c.max = min(c.max, info.ContextLength)
	}
	if c.max < 3 {
		return nil, fmt.Errorf("%s: the model sees %d tokens at once, which leaves no room for a text", path, c.max)
	}
	if info.Tokenizer != "bert" {
		return c, nil
	}
	c.vocabulary = make(map[string]bool, len(info.Tokens))
	for _, t := range info.Tokens {
		c.vocabulary[t] = true
		c.longest = max(c.longest, len(t))
	}
	if c.vocabulary[space] {
		c.bare = 1
	}
	return c, nil
}

// prepare returns the text as the model can take it; "" where nothing is left.
func (c *cutter) prepare(text string) string {
	text = strings.ToValidUTF8(text, " ")
	text = strings.ReplaceAll(text, "\x00", " ") // it would end a C string
	text = strings.TrimSpace(text)
	if c.vocabulary == nil {
		const frame = 3 // one more for the mark before the first word
		return cutBytes(text, max(c.max-frame, 1))
	}
	return c.cutWords(text, c.max-2)
}

func cutBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// cutWords cuts in front of the first word that does not fit, or within it
// where it is the first.
func (c *cutter) cutWords(text string, budget int) string {
	begin := -1 // of the current word
	fits := func(end int) bool {
		if begin < 0 {
			return true
		}
		if budget -= c.count(text[begin:end]); budget < 0 {
			return false
		}
		begin = -1
		return true
	}
	for i, r := range text {
		single := isMark(r) || isCJK(r)
		if single || unicode.IsSpace(r) {
			if !fits(i) {
				break
			}
		}
		switch {
		case single:
			begin = i
			if !fits(i + utf8.RuneLen(r)) {
				return c.atLeastSome(text, i)
			}
		case !unicode.IsSpace(r) && begin < 0:
			begin = i
		}
	}
	if budget >= 0 && fits(len(text)) {
		return text
	}
	return c.atLeastSome(text, begin)
}

// atLeastSome cuts at end, or, where nothing would be left, as many characters
// as certainly fit.
func (c *cutter) atLeastSome(text string, end int) string {
	if kept := strings.TrimSpace(text[:end]); kept != "" {
		return kept
	}
	left := c.max - 2 - c.bare
	for i := range text {
		if left == 0 {
			return text[:i]
		}
		left--
	}
	return text
}

// isMark reports whether r is a word of its own, as far as ASCII goes. Beyond,
// the count does not depend on it.
func isMark(r rune) bool {
	switch {
	case r <= ' ' || r >= 0x7f, '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return false
	}
	return true
}

// isCJK is narrower than unicode.Han: the count would be too low for a
// character that the tokenizer does not take for a word of its own.
func isCJK(r rune) bool {
	return r >= 0x3400 && r <= 0x4dbf || r >= 0x4e00 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x2a6df
}

// count bounds the tokens of one word from above.
func (c *cutter) count(word string) int {
	clean := make([]byte, 0, len(space)+len(word))
	clean = append(clean, space...)
	for i := range len(word) {
		b := word[i]
		switch {
		case b >= utf8.RuneSelf:
			return utf8.RuneCountInString(word) + c.bare
		case 'A' <= b && b <= 'Z':
			clean = append(clean, b+'a'-'A')
		case b >= ' ' && b != 0x7f: // the tokenizer drops control characters
			clean = append(clean, b)
		}
	}
	n := 0
	for at := 0; at < len(clean); n++ {
		end := min(len(clean), at+c.longest)
		for end > at && !c.vocabulary[string(clean[at:end])] {
			end--
		}
		if end == at {
			return 1 // the unknown word
		}
		at = end
	}
	return n
}
