package scrub

import (
	"bytes"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
)

// isSecretValue says whether a value that stands under a strong name in a text
// is a secret, and no label, no example and no reference to where it is.
func isSecretValue(v []byte) bool {
	const most = 8 << 10
	if scheme, rest, ok := bytes.Cut(v, []byte(" ")); ok && onlyLetters(scheme) {
		v = rest // Bearer, token
	}
	if len(v) < minLength || len(v) > most || isPlace(string(v)) || isPlaceholder(v) {
		return false
	}
	return !slices.ContainsFunc(v, func(c byte) bool { return c <= ' ' || c == 0x7f }) && isNoWord(v)
}

// isConfiguredSecret is isSecretValue for a value of the configuration. Where that
// begins and ends is known, so it may have white space within, be long, and begin
// with any sign. words says that plain words are enough if there are several, as in
// a password that somebody has chosen.
func isConfiguredSecret(value string, words bool) bool {
	v := strings.TrimSpace(value)
	if scheme, rest, ok := strings.Cut(v, " "); ok && isScheme(scheme) {
		v = strings.TrimSpace(rest)
	}
	if len(v) < minLength || isWhere(v) || isSample([]byte(v)) || standIn().MatchString(v) {
		return false
	}
	joined := strings.Join(strings.Fields(v), "")
	if len(joined) == len(v) {
		return isNoWord([]byte(v))
	}
	return len(v) >= minUntold && (words || isNoWord([]byte(joined)))
}

// isScheme takes the words that stand before a secret in a header.
func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case bearer, basic, "digest", "token":
		return true
	}
	return false
}

// isWhere is isPlace for a value whose name says that it is a secret: what has
// several lines or is JSON is none, whatever is in it, nor is base64 that begins
// with a slash.
func isWhere(v string) bool {
	switch {
	case v[0] == '{' || v[0] == '[' || strings.ContainsAny(v, "\r\n"):
		return false
	case v[0] == '/':
		return isName([]byte(v))
	case v[0] == '~':
		return strings.Contains(v, "/")
	}
	return isPlace(strings.Fields(v)[0]) // what follows may be anything
}

// standIn matches a value that only says what belongs there: $NAME, ${NAME},
// {{name}}, $(command), <a token>, [token], %NAME%, (none).
var standIn = lazyregexp.New(`^(\$[A-Z_][A-Z0-9_]*|\$?\{+[^{}"']*\}+|\$\([^()]*\)|<[^<>]*>|\[[A-Za-z_: -]*\]|%[A-Za-z_]+%|\([A-Za-z_ -]*\))$`)

// isNoWord says whether v, which has no white space, is more than a word, or a few
// that are joined.
func isNoWord(v []byte) bool {
	const (
		sentence = 32 // bytes from which words that are joined are none
		word     = 20
	)
	letters, digits, others, mixed := 0, 0, 0, false
	for i, c := range v {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case isAlnum(c):
			letters++
			mixed = mixed || i > 0 && c < 'a' != (v[i-1] < 'a') && isAlnum(v[i-1]) && i > 1
		case c == '-' || c == '_' || c == '.':
		default:
			others++
		}
	}
	switch {
	case digits > 0 || others > 0:
		return letters+digits+others >= minLength
	case letters == len(v):
		return mixed || len(v) >= word
	}
	return len(v) >= sentence
}

// isExample says whether what looks like a password in an address, or behind the
// word Basic, is one that documentation writes. Results of tools hold a lot of
// that.
func isExample(mark string, v []byte) bool {
	const shortest = 4
	switch mark {
	case marker(kindPassword):
		switch strings.ToLower(string(v)) {
		case "password", "passwd", "pass", "passw0rd", "mypassword", "mypass", "secret", "xxxxx", "example", "changeme", "postgres", "guest":
			return true
		}
		return len(v) < shortest || isPlaceholder(v)
	case marker(kindAuthorization):
		return string(v) == "QWxhZGRpbjpvcGVuIHNlc2FtZQ==" // of RFC 7617
	}
	return false
}

func withoutExamples(spans []span, text []byte) []span {
	return slices.DeleteFunc(spans, func(sp span) bool { return isExample(sp.marker, text[sp.start:sp.end]) })
}

func onlyLetters(b []byte) bool {
	for _, c := range b {
		if !isAlnum(c) || c >= '0' && c <= '9' {
			return false
		}
	}
	return len(b) > 0
}

// isPlaceholder takes what stands for a value: ${NAME}, <token>, ****, xxxx,
// your-key, [REDACTED].
func isPlaceholder(v []byte) bool {
	return bytes.IndexByte([]byte("$<{[%*("), v[0]) >= 0 || isSample(v)
}

// isSample takes what is written for a value in examples, and one that is masked.
func isSample(v []byte) bool {
	if hasPrefixFold(v, "your") || hasPrefixFold(v, "example") || hasPrefixFold(v, "process.env") || hasPrefixFold(v, "os.") {
		return true
	}
	for _, c := range v {
		if fold(c) != fold(v[0]) {
			return bytes.Contains(v, []byte("****")) || bytes.Contains(v, []byte("...")) || bytes.Contains(v, []byte("…"))
		}
	}
	return true // one character
}

// isHash takes hashes as hexadecimal digits, with or without their method, and
// what is said in base64 behind a method.
func isHash(b []byte) bool {
	for _, method := range []string{"sha1-", "sha256-", "sha384-", "sha512-", "sha256:", "sha512:", "h1:", "md5-"} {
		if bytes.HasPrefix(b, []byte(method)) {
			return true
		}
	}
	for _, c := range b {
		if !isHexDigit(c) {
			return false
		}
	}
	return true
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func isUUID(b []byte) bool {
	const length = 36
	if len(b) != length {
		return false
	}
	for i, c := range b {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isHexDigit(c) {
			return false
		}
	}
	return true
}
