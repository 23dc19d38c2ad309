package scrub

import (
	"bytes"
	"encoding/base64"
)

// shape is how a service's tokens look: a prefix and so many characters.
type shape struct {
	name, prefix string
	more         string // characters beside letters and digits
	least, most  int    // characters behind the prefix
	digits       int    // at least so many of them are digits; words have none
}

// What the shapes that need code of their own are called.
const (
	kindPassword      = "password"
	kindAuthorization = "Authorization"
	kindPrivateKey    = "private-key"
)

// longestToken bounds a token, and with it the work at one place.
const longestToken = 1 << 10

var shapes = []shape{
	{"API-key", "sk-", "_-", 16, longestToken, 3},
	{"API-key", "sk_live_", "", 16, longestToken, 0},
	{"API-key", "sk_test_", "", 16, longestToken, 0},
	{"API-key", "rk_live_", "", 16, longestToken, 0},
	{"GitHub-token", "ghp_", "_", 20, longestToken, 0},
	{"GitHub-token", "gho_", "_", 20, longestToken, 0},
	{"GitHub-token", "ghu_", "_", 20, longestToken, 0},
	{"GitHub-token", "ghs_", "_", 20, longestToken, 0},
	{"GitHub-token", "ghr_", "_", 20, longestToken, 0},
	{"GitHub-token", "github_pat_", "_", 22, longestToken, 0},
	{"Slack-token", "xoxa-", "-", 10, longestToken, 1},
	{"Slack-token", "xoxb-", "-", 10, longestToken, 1},
	{"Slack-token", "xoxp-", "-", 10, longestToken, 1},
	{"Slack-token", "xoxr-", "-", 10, longestToken, 1},
	{"Slack-token", "xoxs-", "-", 10, longestToken, 1},
	{"AWS-key-id", "AKIA", "", 16, 16, 0},
	{"AWS-key-id", "ASIA", "", 16, 16, 0},
	{"Google-key", "AIza", "_-", 35, 35, 0},
	{"GitLab-token", "glpat-", "_-", 20, longestToken, 0},
	{"npm-token", "npm_", "", 36, 36, 0},
	{"HuggingFace-token", "hf_", "", 30, longestToken, 0},
}

// Beginnings that take more than a prefix.
const (
	jwtStart      = "eyJ" // {" in base64
	pemStart      = "-----BEGIN "
	userinfoStart = "://"
	bearer        = "bearer"
	basic         = "basic"
)

// special is what [shapeAt] looks at beside shapes.
var special = []string{jwtStart, pemStart, userinfoStart, bearer, basic}

// byKey are the shapes by their first three bytes.
var byKey = func() map[uint32][]shape {
	m := map[uint32][]shape{}
	for _, sh := range shapes {
		k := keyOf([]byte(sh.prefix))
		m[k] = append(m[k], sh)
	}
	return m
}()

// addShapes makes a filter pass the beginnings of all shapes.
func addShapes(f *filter) {
	for _, sh := range shapes {
		f.add([]byte(sh.prefix), 0, ofShape)
	}
	for _, sp := range special {
		f.add([]byte(sp), 0, ofShape)
	}
}

// shapeAt returns the token that begins at i, or the one that what stands at i
// introduces. key is keyOf(b[i:]).
func shapeAt(b []byte, i int, key uint32) (span, bool) {
	if b[i] == userinfoStart[0] {
		return userinfo(b, i)
	}
	// In the middle of a word, or of a longer token, it is something else.
	if i > 0 && (isAlnum(b[i-1]) || b[i-1] == '_' || b[i-1] == '-' && b[i] != '-') {
		return span{}, false
	}
	switch b[i] {
	case '-':
		return privateKey(b, i)
	case 'B', 'b':
		return authorization(b, i)
	case jwtStart[0]:
		return jwt(b, i)
	}
	for _, sh := range byKey[key] {
		if n := sh.match(b[i:]); n > 0 {
			return span{i, i + n, marker(sh.name)}, true
		}
	}
	return span{}, false
}

// match returns the length of the token that b begins with; 0: none.
func (sh *shape) match(b []byte) int {
	if !bytes.HasPrefix(b, []byte(sh.prefix)) {
		return 0
	}
	n, digits := len(sh.prefix), 0
	for ; n < len(b) && n-len(sh.prefix) < longestToken && (isAlnum(b[n]) || contains(sh.more, b[n])); n++ {
		if b[n] >= '0' && b[n] <= '9' {
			digits++
		}
	}
	if more := n - len(sh.prefix); more < sh.least || more > sh.most || digits < sh.digits {
		return 0
	}
	return n
}

// jwt finds three parts in base64 with points between.
func jwt(b []byte, i int) (span, bool) {
	const (
		leastPart   = 10
		longestPart = 16 << 10
	)
	end := i
	for part := range 3 {
		if part > 0 {
			if end >= len(b) || b[end] != '.' {
				return span{}, false
			}
			end++
		}
		start := end
		for end < len(b) && end-start < longestPart && (isAlnum(b[end]) || b[end] == '_' || b[end] == '-') {
			end++
		}
		if end-start < leastPart {
			return span{}, false
		}
	}
	return span{i, end, marker("JWT")}, true
}

// privateKey finds a PEM block, or as much of it as is there.
func privateKey(b []byte, i int) (span, bool) {
	const longestHead = 64
	rest := b[i:]
	if !bytes.HasPrefix(rest, []byte(pemStart)) {
		return span{}, false
	}
	tail := []byte("PRIVATE KEY-----")
	head := bytes.Index(rest[:min(len(rest), longestHead)], tail)
	if head < 0 {
		return span{}, false
	}
	end := len(rest)
	if stop := bytes.Index(rest, []byte("-----END ")); stop >= 0 {
		if n := bytes.Index(rest[stop:min(len(rest), stop+longestHead)], tail); n >= 0 {
			end = stop + n + len(tail)
		}
	}
	return span{i, i + end, marker(kindPrivateKey)}, true
}

// redacted is how every marker begins.
var redacted = []byte("[REDACTED")

// userinfo finds the password in the address whose :// is at i, or a token
// that stands there alone.
func userinfo(b []byte, i int) (span, bool) {
	const (
		longest    = 512
		leastToken = 16 // users have shorter names
	)
	start := i + len(userinfoStart)
	if i == 0 || !isAlnum(b[i-1]) || !bytes.HasPrefix(b[i:], []byte(userinfoStart)) {
		return span{}, false
	}
	at, colon := -1, -1
	for j := start; j < len(b) && j-start < longest; j++ {
		switch c := b[j]; {
		case c == '@':
			at = j
			continue
		case c == ':' && colon < 0 && at < 0:
			colon = j
			continue
		case c > ' ' && !contains("/?#\"'`<>\\", c):
			continue
		}
		break
	}
	switch {
	case at < 0 || bytes.HasPrefix(b[start:], redacted) || bytes.HasPrefix(b[colon+1:], redacted):
	case colon >= 0 && at > colon+1:
		return span{colon + 1, at, marker(kindPassword)}, true
	case colon < 0 && at-start >= leastToken:
		return span{start, at, marker(kindPassword)}, true
	}
	return span{}, false
}

// authorization finds what stands behind the words Bearer and Basic.
func authorization(b []byte, i int) (span, bool) {
	const leastBearer, leastBasic = 16, 8
	var word string
	switch {
	case hasPrefixFold(b[i:], bearer):
		word = bearer
	case hasPrefixFold(b[i:], basic):
		word = basic
	default:
		return span{}, false
	}
	start := i + len(word)
	for start < len(b) && start-i < 2*len(word) && contains(" :\t", b[start]) {
		start++
	}
	if start == i+len(word) {
		return span{}, false
	}
	end, digits := start, 0
	for end < len(b) && end-start < longestToken && (isAlnum(b[end]) || contains("._~+/=-", b[end])) {
		if b[end] >= '0' && b[end] <= '9' {
			digits++
		}
		end++
	}
	token := b[start:end]
	if word == bearer && len(token) >= leastBearer && digits > 0 || word == basic && len(token) >= leastBasic && isUserAndPassword(token) {
		return span{start, end, marker(kindAuthorization)}, true
	}
	return span{}, false
}

// isUserAndPassword says whether token is user:password in base64, and not a
// word of a sentence.
func isUserAndPassword(token []byte) bool {
	var buf [longestToken]byte // a longer token is none
	n, err := base64.RawStdEncoding.Decode(buf[:], bytes.TrimRight(token, "="))
	plain := buf[:n]
	if err != nil || bytes.IndexByte(plain, ':') < 0 {
		return false
	}
	for _, c := range plain {
		if c < ' ' {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func contains(set string, c byte) bool {
	for i := range len(set) {
		if set[i] == c {
			return true
		}
	}
	return false
}

func hasPrefixFold(b []byte, lower string) bool {
	if len(b) < len(lower) {
		return false
	}
	for i := range len(lower) {
		if fold(b[i]) != lower[i] {
			return false
		}
	}
	return true
}
