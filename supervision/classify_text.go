package supervision

import (
	"regexp"
	"sync"

	"github.com/metamcp/metamcp/messages"
)

// Pieces that the patterns share.
const (
	// envNameExact is an environment variable that holds a credential; envName
	// is the same within a pattern that is not case-sensitive.
	envNameExact = `\b[A-Z][A-Z0-9_]*(?:API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|SECRET(?:_?KEY)?|TOKEN|PASSWORD|_PAT|CREDENTIALS?)\b`
	envName      = `(?-i:` + envNameExact + `)`
	// credential is one in words. A bare "token" is left out: parsers
	// complain of those.
	credential = `(?:` + envName + `|api[ _-]?keys?|(?:access|auth|authentication|bearer|refresh|personal access|oauth2?)[ _-]?tokens?|credentials|client[ _-]secrets?)`
	// statusWord comes before a number that is an HTTP status.
	statusWord = `(?:https?(?:/\d(?:\.\d)?)?(?: error)?|status(?:[ _-]?code)?|(?:http|error|response)[ _-](?:status|code)|error)["']?[ \t]*[:=(]?[ \t]*["']?`
	// statusVerb comes before a number that is a status if nothing is counted
	// by it, which statusEnd sees to.
	statusVerb = `(?:returned|got|received|responded with|replied with|answered(?: with)?|failed with)[ \t]+(?:an?[ \t]+)?`
	statusEnd  = `(?:[ \t]*(?:$|[.,;:)\]"'(-])|[ \t]+(?:error|response|status|from|for)\b)`
)

// textPattern is one row of the table.
type textPattern struct {
	class messages.Class
	expr  string
}

// textPatterns are read in order; the first that matches decides. All are
// case-insensitive and bounded by words, and numbers count as a status only
// next to a word that says so, or "port 4010" and "took 401 ms" would be
// refused credentials. What is doubtful is left out: a wrong "auth" switches
// the breaker off, a missing one merely counts.
var textPatterns = []textPattern{
	{messages.ClassAuth, `\b` + statusWord + `40[13]\b`},
	{messages.ClassAuth, `\b` + statusVerb + `40[13]` + statusEnd},
	{messages.ClassAuth, `^\s*40[13]\s*$`},
	{messages.ClassAuth, `\b401[ \t:(-]*unauthori[sz]ed\b|\b403[ \t:(-]*forbidden\b|\((?:401|403)\)`},
	{messages.ClassAuth, `\b(?:unauthori[sz]ed|unauthenticated)\b`},
	{messages.ClassAuth, `\b(?:authentication|authorization)[ \t]+(?:has[ \t]+)?(?:failed|failure|required|denied|error)\b`},
	{messages.ClassAuth, `\b(?:not[ \t]+(?:authenticated|logged[ \t]in)|login[ \t]+required)\b`},
	{messages.ClassAuth, `\b(?:invalid_(?:token|grant|client|api_key)|insufficient_scope|unauthorized_client|access_denied|authentication_error)\b`},
	{messages.ClassAuth, `\b(?:missing|invalid|incorrect|wrong|expired|revoked|no|bad)[ \t]*:?[ \t]+["'` + "`" + `]?(?:[\w-]+[ \t]+){0,3}["'` + "`" + `]?` + credential + `\b`},
	{messages.ClassAuth, `\b` + credential + `\b["'` + "`" + `)]*[ \t]*:?[ \t]*(?:(?:environment|env)[ \t]+var(?:iable)?[ \t]+)?(?:(?:is|was|are|were|has|have|must|needs?|to|be|been|provided|you)[ \t]+){0,4}(?:not[ \t]+(?:be[ \t]+)?(?:been[ \t]+)?(?:set|provided|found|configured|defined|specified|given|valid)|required|missing|invalid|incorrect|unset|undefined|empty|expired|revoked|rejected|refused)\b`},
	{messages.ClassAuth, `\b` + credential + `\b["'` + "`" + `)]*[ \t]+(?:(?:environment|env)[ \t]+var(?:iable)?[ \t]+)?(?:must|needs?[ \t]+to|has[ \t]+to)[ \t]+be[ \t]+(?:set|provided|given|configured|defined|specified)\b`},
	{messages.ClassAuth, `\b(?:missing|required)[ \t]+(?:required[ \t]+)?(?:environment|env)[ \t]+var(?:iable)?s?\b[^\n]{0,40}?` + envName},
	{messages.ClassAuth, `\bplease[ \t]+(?:set|provide|export|define|supply|configure)[ \t]+[^\n]{0,40}?` + credential},
	{messages.ClassAuth, `\bKeyError:[ \t]*["']` + envName},
	{messages.ClassAuth, `\bremote error: tls: certificate required\b`},
	{messages.ClassAuth, `\b(?:token|jwt|session|credentials?)[ \t]+(?:(?:has|have|is|was)[ \t]+)?(?:been[ \t]+)?(?:expired|revoked)\b`},

	{messages.ClassHTTP, `\b` + statusWord + `(?:429|5\d\d)\b`},
	{messages.ClassHTTP, `\b` + statusVerb + `(?:429|5\d\d)` + statusEnd},
	{messages.ClassHTTP, `\b(?:too many requests|rate[ -]?limit(?:ed|[ \t]+(?:exceeded|reached))|bad gateway|service (?:temporarily )?unavailable|internal server error|gateway time-?out)\b`},

	{messages.ClassOffline, `\b(?:ECONNREFUSED|ECONNRESET|ECONNABORTED|ETIMEDOUT|ESOCKETTIMEDOUT|ENOTFOUND|EAI_AGAIN|EAI_NONAME|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN)\b`},
	{messages.ClassOffline, `\bspawn\b[^\n]{0,200}\b(?:ENOENT|EACCES)\b|\b(?:ENOENT|EACCES)\b[^\n]{0,20}\bspawn\b`},
	{messages.ClassOffline, `\bconnection (?:was )?(?:refused|reset|timed out|aborted)\b|\bsocket hang up\b`},
	{messages.ClassOffline, `\b(?:no such host|name or service not known|nodename nor servname|temporary failure in name resolution|could not resolve host|getaddrinfo|dns (?:lookup|resolution|failure))\b`},
	{messages.ClassOffline, `\b(?:no route to host|(?:network|host) is unreachable|network is down)\b`},
	{messages.ClassOffline, `\b(?:command not found|executable file not found|exec format error|no such file or directory)\b`},
	{messages.ClassOffline, `\b(?:timed out|timeout|deadline exceeded)\b`},

	{messages.ClassStdioExit, `\bexit(?:ed)?(?:[ \t]+with)?[ \t]+(?:code|status)[ \t:]+[1-9]\d*\b`},
	{messages.ClassStdioExit, `\b(?:killed by signal|signal: (?:killed|terminated|aborted|segmentation fault)|segmentation fault|SIG(?:KILL|TERM|SEGV|ABRT|BUS|ILL))\b`},
	{messages.ClassStdioExit, `\b(?:broken pipe|EPIPE|unexpected EOF|unexpected end of (?:file|stream)|EOF)\b`},
}

type compiledPattern struct {
	class messages.Class
	re    *regexp.Regexp
}

// compiledPatterns compiles the table at the first failure: a start that
// fails nowhere does not pay for it.
var compiledPatterns = sync.OnceValue(func() []compiledPattern {
	out := make([]compiledPattern, len(textPatterns))
	for i, p := range textPatterns {
		out[i] = compiledPattern{p.class, regexp.MustCompile(`(?im)` + p.expr)}
	}
	return out
})

// textClass returns the class of the first pattern that text matches, or
// ClassNone.
func textClass(text string) messages.Class {
	if text == "" {
		return messages.ClassNone
	}
	for _, p := range compiledPatterns() {
		if p.re.MatchString(text) {
			return p.class
		}
	}
	return messages.ClassNone
}

var compiledEnvName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(envNameExact) })

// credentialName returns the environment variable that text most likely
// complains of, "" where it names none.
func credentialName(text string) string { return compiledEnvName().FindString(text) }
