package scrub

import (
	"bytes"
)

// strongNames are what the name of a value ends with, without its separators
// and in lower case, if the value is a secret whatever it looks like.
var strongNames = []string{
	"password", "passwd", "passphrase", "secret", "secretkey", "secretaccesskey", "clientsecret", "apikey", "apisecret", "apitoken",
	"accesstoken", "refreshtoken", "authtoken", "bearertoken", "sessiontoken", "privatekey", "accesskey", "signingkey", "encryptionkey",
	"authorization", "secrettoken", "personaltoken", "deploytoken", "bottoken", "usertoken", "webhooksecret", "masterkey", "authkey",
}

// strongEndings are words of which one ends each of the strongNames, however
// its parts are separated.
func strongEndings() []string {
	return []string{"password", "passwd", "passphrase", "secret", "key", "token", "authorization"}
}

// credentialWords are what the name of a secret has somewhere in it; the
// strictWords are in the names of nothing else.
var (
	strictWords     = newWords("key", "token", "secret", "pass", "pwd", "auth", "cred")
	credentialWords = newWords("key", "token", "secret", "pass", "pwd", "auth", "cred", "api", "access", "private", "login", "sign")
)

// credentialName says whether a name that stands before a value, and whose
// keyword begins at start, says that it is about a secret. A service's name
// alone does not: what follows it are its ids, names and hashes.
func credentialName(b []byte, start, value int) bool {
	lo := start
	for lo > 0 && start-lo < beforeAssignment && (isWord(b[lo-1]) || b[lo-1] == '.' || b[lo-1] == '-') {
		lo--
	}
	return credentialWords.in(b[lo:value])
}

// words are lower-case words by their first letter.
type words ['z' - 'a' + 1][]string

func newWords(list ...string) *words {
	w := new(words)
	for _, word := range list {
		w[word[0]-'a'] = append(w[word[0]-'a'], word)
	}
	return w
}

// in says whether any of the words stands in b, whatever its case.
func (w *words) in(b []byte) bool {
	for i, c := range b {
		if c = fold(c) - 'a'; int(c) >= len(w) {
			continue
		}
		for _, word := range w[c] {
			if hasPrefixFold(b[i:], word) {
				return true
			}
		}
	}
	return false
}

// strongName returns which of the strongNames a name ends with; "": none.
func strongName(name []byte) string {
	const longest = 48 // of what is looked at, from the end
	var buf [longest]byte
	n := len(buf)
	for i := len(name) - 1; i >= 0 && n > 0; i-- {
		switch c := name[i]; {
		case isAlnum(c):
			n--
			buf[n] = fold(c)
		case c != '_' && c != '-' && c != '.' && c != ' ':
			return ""
		}
	}
	clean := buf[n:]
	if len(clean) == 0 || !strongEnds[clean[len(clean)-1]] {
		return ""
	}
	for _, s := range strongNames {
		if n := len(clean) - len(s); n >= 0 && string(clean[n:]) == s {
			return s
		}
	}
	return ""
}

// strongEnds are the last letters of the strongNames.
var strongEnds = func() (ends [256]bool) {
	for _, s := range strongNames {
		ends[s[len(s)-1]] = true
	}
	return ends
}()

// named finds a value in a text that is JSON, under a quoted name that ends
// with a keyword; start and end are those of the keyword.
func named(b []byte, start, end int) (span, bool) {
	const longest = 8 << 10
	i := end
	// Text that is JSON within JSON has backslashes before its quotes.
	quote := func() bool {
		for i < len(b) && b[i] == '\\' {
			i++
		}
		if i < len(b) && b[i] == '"' {
			i++
			return true
		}
		return false
	}
	blank := func() {
		for i < len(b) && isMark(b[i]) && b[i] != '"' && b[i] != '\'' {
			i++
		}
	}
	if !quote() {
		return span{}, false
	}
	blank()
	if i >= len(b) || b[i] != ':' {
		return span{}, false
	}
	i++
	blank()
	if !quote() {
		return span{}, false
	}
	from := i
	for i < len(b) && i-from < longest && b[i] != '"' && b[i] >= ' ' {
		i++
	}
	if i >= len(b) || b[i] != '"' {
		return span{}, false // not a whole value
	}
	to := i
	for to > from && b[to-1] == '\\' {
		to--
	}
	lo := start
	for lo > 0 && start-lo < beforeAssignment && (isWord(b[lo-1]) || b[lo-1] == '.' || b[lo-1] == '-') {
		lo--
	}
	kind := strongName(b[lo:end])
	if lo == 0 || b[lo-1] != '"' || kind == "" || !isSecretValue(b[from:to]) {
		return span{}, false
	}
	return span{from, to, marker(kind)}, true
}

// password finds what is written behind a word for it in a text of people, a
// configuration or a log: password: hunter2, DB_PASSWORD=…, password="…". word
// ends at end. What stands so in a program, such as password = args[1], is none.
func password(b []byte, word string, end int) (span, bool) {
	const longest = 256
	switch word {
	case "password", "passwd", "passphrase":
	default:
		return span{}, false
	}
	at := func(i int) byte {
		if i < len(b) {
			return b[i]
		}
		return 0
	}
	i := end
	blanks := 0
	for at(i) == ' ' && blanks < 2 {
		i, blanks = i+1, blanks+1
	}
	sign := at(i)
	if sign != ':' && sign != '=' {
		return span{}, false
	}
	for i++; at(i) == ' '; i++ {
		blanks++
	}
	quote := at(i)
	quoted := quote == '"' || quote == '\''
	if quoted {
		i++
	}
	from := i
	for i < len(b) && i-from < longest && b[i] > ' ' && b[i] < 0x7f && (!quoted && !contains("\"'`,;<>()[]{}\\", b[i]) || quoted && b[i] != quote && b[i] != '\\') {
		i++
	}
	value := b[from:i]
	switch {
	case quoted && at(i) != quote:
		return span{}, false
	// Without quotes, a value of a program is a name, which something follows.
	case !quoted && (sign == '=' && blanks > 0 || i < len(b) && b[i] > ' '):
		return span{}, false
	case !isSecretValue(value) || onlyLetters(value) || isHash(value) || isPlace(string(value)):
		return span{}, false
	}
	return span{from, i, marker(word)}, true
}

// isReference says whether a value is something that a tool hands out to be
// used, such as a hash, an id, a file or the place where a listing goes on, and
// its name does not say that it is a secret. Where the name says whose secret it
// might be, only hashes and ids are meant.
func isReference(before, secret []byte, whose bool) bool {
	name := nameBefore(before)
	if whose {
		return isDigestName(name) || (isHash(secret) || isUUID(secret)) && !strictWords.in(name)
	}
	return strongName(name) == "" && (isDigestName(name) || isHash(secret) || isUUID(secret) || isName(secret) || hasExtension(secret) || positions.in(name))
}

// nameBefore is the name in what stands before a value.
func nameBefore(b []byte) []byte {
	end := len(b)
	for end > 0 && !isWord(b[end-1]) {
		end--
	}
	start := end
	for start > 0 && (isWord(b[start-1]) || b[start-1] == '-' || b[start-1] == '.') {
		start--
	}
	return b[start:end]
}

// isName takes what is made of words and numbers with separators between:
// names of files and packages, versions, times, expressions of programs. A
// secret has letters and digits mixed in a long piece.
func isName(b []byte) bool {
	const longestMixed = 12
	for len(b) > 0 {
		letters, digits, changes, turns, n := 0, 0, 0, 0, 0
		for ; n < len(b) && !isSeparator(b[n]); n++ {
			c := b[n]
			digit := c >= '0' && c <= '9'
			if digit {
				digits++
			} else {
				letters++
			}
			if n > 0 && digit != (b[n-1] >= '0' && b[n-1] <= '9') {
				changes++
			}
			if n > 0 && isCapital(c) && !isCapital(b[n-1]) {
				turns++
			}
		}
		if letters > 0 && digits > 0 && changes > 2 && n > longestMixed && !isHash(b[:n]) || turns > 2 && 4*turns > n {
			return false
		}
		b = b[min(n+1, len(b)):]
	}
	return true
}

// isSeparator says whether c stands between the words of a name.
func isSeparator(c byte) bool {
	switch c {
	case '.', '-', '_', '/', '=', '+', ':':
		return true
	}
	return false
}

// hasExtension takes names of files.
func hasExtension(b []byte) bool {
	const longest = 5
	dot := bytes.LastIndexByte(b, '.')
	if dot <= 0 || len(b)-dot-1 > longest || len(b)-dot < 2 {
		return false
	}
	for _, c := range b[dot+1:] {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

// isDigestName takes names of what says that something is whole or the same.
func isDigestName(name []byte) bool {
	if string(name) == "h1" {
		return true // of go.sum
	}
	return digestWords.in(name)
}

var digestWords = newWords("sha1", "sha256", "sha384", "sha512", "md5", "checksum", "digest", "integrity", "etag", "hash", "fingerprint", "commit", "revision", "public")

// positions are words of names whose value says where a listing goes on, and
// which is sent back for the next page.
var positions = newWords("page", "next", "prev", "continu", "sync", "cursor", "progress", "delta", "resume", "offset", "start", "csrf", "xsrf")
