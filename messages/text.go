package messages

import (
	"runtime"
	"strings"
)

// Cut shortens text to its first most bytes and an ellipsis where something is missing.
// The part of a character at the end is left out, and so is all else in it that is no
// UTF-8.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// CutAtWord shortens text to at most most bytes, of which the last are an ellipsis
// where something is missing; most is at least the length of that. No word is divided:
// the beginning of one may be that of a secret, which nobody recognizes any more. A
// text that is one long word has nothing but the ellipsis left. It is for those who
// cannot have secrets taken out before they cut.
func CutAtWord(text string, most int) string {
	const (
		ellipsis = "…"
		ends     = " \t\r\n\"'`:,=<>()"
	)
	if len(text) <= most {
		return text
	}
	kept := text[:most-len(ellipsis)]
	for {
		end := strings.LastIndexAny(kept, ends)
		if end < 0 {
			return ellipsis
		}
		if text[end+1] != '=' { // else it may be the padding of Base64
			return strings.TrimRight(kept[:end+1], " \t\r\n") + ellipsis
		}
		kept = kept[:end]
	}
}

// ShellWord writes a word, such as a name or a path in a command that somebody is to
// type, so that a shell takes it as it is. On Windows a backslash and a tilde behind the
// beginning stay without quotes: paths have them there, such as C:\PROGRA~1, its shells
// take them as they are, and one of them does not know quotes of this kind.
func ShellWord(word string) string {
	plain := "_.,:@%/+-"
	if runtime.GOOS == "windows" && !strings.HasPrefix(word, "~") {
		plain += `\~`
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(plain, r)
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// HintSentence is a hint that stands within another text as that of an [Error], which
// stands alone: it begins with a capital letter. One that begins with a command of ours,
// or with no ASCII letter, stays.
func HintSentence(hint string) string {
	if hint == "" || hint[0] < 'a' || hint[0] > 'z' || strings.HasPrefix(hint, "metamcp ") {
		return hint
	}
	return strings.ToUpper(hint[:1]) + hint[1:]
}
