package scrub

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/messages"
)

const (
	// minLength keeps values from being taken for secrets that stand in every
	// text, such as "1" or "true".
	minLength = 6
	// minUntold is the same for values whose name does not say secret, for
	// lines of a value and for other writings of it.
	minUntold = 8
	// longestValue bounds what is looked for; longer ones are files.
	longestValue = 64 << 10
)

var (
	// secretName matches the names of variables, flags and headers that hold
	// secrets: SSHPASS too, but no bypass, compass or GIT_ASKPASS.
	secretName = lazyregexp.New(`(?i)(key|token|(^|[_-])tok([_-]|$)|secret|passw|passphrase|(^|[_-])pass([_-]|$)|[a-jlno-xz]pass$|pwd|auth|cred|cookie|session|private|dsn|connection_?string|(^|[_-])pat$|bearer|signature)`)
	// aboutSecret matches names that tell of a secret without holding it, and
	// placeOfSecret those that hold where it is, or the secret itself.
	aboutSecret   = lazyregexp.New(`(?i)[_-](mode|type|host|port|ttl|timeout|method|algorithm)$`)
	placeOfSecret = lazyregexp.New(`(?i)[_-](file|path|dir|names?|env|url|uri)$`)
	// assignment finds password=… and "apiKey": "…" in a longer value.
	assignment = lazyregexp.New(`(?i)([a-z0-9_-]*(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|signature))["']?\s*[=:]\s*["']?([^;&\s"',{}]{6,})`)
	variable   = lazyregexp.New(`(?s)^(?:--?[a-z-]+=|-e)?([A-Za-z_][A-Za-z0-9_]*)=(.+)$`)
	header     = lazyregexp.New(`^([A-Za-z0-9-]+):\s*(.+)$`)
	// queryKey finds the key of an API in an address, under names that say
	// nothing elsewhere.
	queryKey = lazyregexp.New(`(?i)[?&](key|sig|auth|code|access|credential)=([^&#\s"']{6,})`)
)

// publicName are variables that match secretName and hold none.
var publicName = map[string]bool{
	"SSH_AUTH_SOCK": true, "XDG_SESSION_ID": true, "XDG_SESSION_TYPE": true, "XDG_SESSION_CLASS": true, "XDG_SESSION_DESKTOP": true,
	"XDG_SESSION_PATH": true, "DESKTOP_SESSION": true, "GDMSESSION": true, "SESSION_MANAGER": true, "DBUS_SESSION_BUS_ADDRESS": true,
	"SESSIONNAME": true, "PWD": true, "OLDPWD": true,
}

// plainVariable are variables that ${…} often names and that hold no secret.
var plainVariable = lazyregexp.New(`(?i)^(path|home|user|username|logname|shell|lang|language|lc_.*|tz|term|tmpdir|tmp|temp|xdg_.*|pwd|hostname|host|display|editor|userprofile|appdata|localappdata)$`)

// publicHeader are headers that every request has.
var publicHeader = map[string]bool{
	"accept": true, "accept-language": true, "accept-encoding": true, "content-type": true, "user-agent": true, "host": true,
	"origin": true, "referer": true, "mcp-protocol-version": true, "cache-control": true, "connection": true,
}

// plainWords are values that say nothing of anybody.
var plainWords = map[string]bool{
	"disabled": true, "enabled": true, "required": true, "optional": true, "default": true, "localhost": true,
	"production": true, "development": true, "staging": true, "warning": true, "verbose": true, "undefined": true,
}

// New collects the secrets of the servers: what the names of variables, flags
// and headers call secret, what came from a ${VARIABLE}, passwords in
// addresses, and values that look like tokens. They are known as they are, by
// line, and as JSON and base64 write them, and found where a URL escapes any of that.
func New(specs []*messages.ServerSpec) *Set {
	s := &Set{}
	s.known.learn(collect(specs).written())
	return s
}

// With is New with the servers of s and more. It takes as long as what is secret
// of these, however many s knows.
func (s *Set) With(more []*messages.ServerSpec) *Set {
	if s == nil {
		return nil
	}
	written := collect(more).written()
	if len(written) == 0 {
		return s
	}
	own := &Set{known: s.known}
	own.known.learn(written)
	f := s.passes().copied()
	for w := range written {
		f.add([]byte(w), 0, ofKnown)
	}
	own.filter.Store(f)
	return own
}

func collect(specs []*messages.ServerSpec) collector {
	c := collector{}
	seen := map[string]bool{} // most servers get the same variables
	for _, spec := range specs {
		for _, kv := range spec.Env {
			if name, value, ok := strings.Cut(kv, "="); ok && !seen[kv] {
				seen[kv] = true
				c.named(name, value)
			}
		}
		for name, value := range spec.Filled {
			switch stored, ok := strings.CutPrefix(name, "secret:"); {
			case ok:
				c.add(stored, value, minLength, true)
				c.within(stored, value)
			case value != spec.Command: // a command that is not found has to be named
				c.filled(name, value)
			}
		}
		c.arguments(spec.Args)
		c.within("url", spec.URL)
		for name, value := range spec.Headers {
			c.header(name, value)
		}
		if o := spec.OAuth; o != nil {
			c.add("clientSecret", o.ClientSecret, minLength, true)
			c.add("privateKey", o.PrivateKey, minLength, true)
		}
	}
	return c
}

// collector is what is secret, by its value.
type collector map[string]found

// found is where a secret was found. certain says that it goes from results of
// tools as well: there a word that only may be a secret, such as the name of a
// user or of a project, is needed.
type found struct {
	name    string
	certain bool
}

// and is what is found at two places. In whatever order places come together, the
// same comes out.
func (f found) and(other found) found {
	return found{min(f.name, other.name), f.certain || other.certain}
}

func (c collector) add(name, value string, least int, certain bool) {
	value = strings.TrimSpace(value)
	if len(value) < least || len(value) > longestValue || plainWords[strings.ToLower(value)] {
		return
	}
	f := found{name, certain}
	if old, ok := c[value]; ok {
		f = old.and(f)
	}
	c[value] = f
}

// certainWords end the names of variables, flags and headers that hold nothing
// but secrets.
var certainWords = lazyregexp.New(`(?i)(key|token|(^|[_.-])tok|secret|passw(or)?d|passphrase|(^|[_.a-jlno-xz-])pass|pwd|credentials?|cookie|(^|[_.-])pat|(^|[_.-])auth|authorization|(^|[_.-])dsn|connection_?string|bearer|signature)$`)

// chosenWords end the names of secrets that people choose, from words too. What is
// called a key or a token may also be the name of a column or of a setting.
var chosenWords = lazyregexp.New(`(?i)(secret|passw(or)?d|passphrase|(^|[_.a-jlno-xz-])pass|pwd|credentials?)$`)

// isCertain says whether a value under a name goes from results, too: a word
// that anybody may use does not.
func isCertain(name, value string) bool {
	return certainWords().MatchString(name) && isConfiguredSecret(value, chosenWords().MatchString(name))
}

// named takes a variable.
func (c collector) named(name, value string) {
	c.byName(name, value)
	c.within(name, value)
}

// byName takes a variable whose name says that it is secret.
func (c collector) byName(name, value string) {
	switch {
	case !secretName().MatchString(name) || publicName[name] || aboutSecret().MatchString(name):
	case placeOfSecret().MatchString(name) && isPlace(value):
	default:
		c.add(name, value, minLength, isCertain(name, value))
	}
}

// filled takes what a ${name} became.
func (c collector) filled(name, value string) {
	c.named(name, value)
	_, err := strconv.ParseFloat(value, 64)
	if err != nil && !isPlace(value) && !plainVariable().MatchString(name) {
		c.add(name, value, minUntold, false)
	}
}

// isPlace says whether a value is a path or an address, which errors must be
// able to name.
func isPlace(value string) bool {
	for _, start := range []string{"/", "~", "./", "../", `\\`} {
		if strings.HasPrefix(value, start) {
			return true
		}
	}
	return strings.Contains(value, "://") || len(value) > 2 && value[1] == ':' && (value[2] == '\\' || value[2] == '/')
}

// arguments takes a command line.
func (c collector) arguments(args []string) {
	for i, arg := range args {
		c.within("argument", arg)
		if m := variable().FindStringSubmatch(arg); m != nil {
			c.named(m[1], m[2])
		}
		_, text, isFlag := strings.Cut(arg, "=")
		if !isFlag {
			text = arg
		}
		if m := header().FindStringSubmatch(text); len(m) > 0 && secretName().MatchString(m[1]) {
			c.header(m[1], m[2])
		}
		// Short flags are left alone: what -p means differs.
		if !strings.HasPrefix(arg, "-") || len(strings.TrimLeft(arg, "-")) < 2 {
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		c.named(name, value)
	}
}

func (c collector) header(name, value string) {
	if publicHeader[strings.ToLower(name)] {
		return
	}
	c.add(name, value, minLength, isCertain(name, value))
	// The scheme is no part of the secret.
	scheme, rest, ok := strings.Cut(value, " ")
	if !ok {
		return
	}
	c.add(name, rest, minLength, isCertain(name, rest))
	if strings.EqualFold(scheme, basic) {
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			c.add(name, string(plain), minLength, true)
			if _, password, ok := strings.Cut(string(plain), ":"); ok {
				c.add(name, password, minLength, isConfiguredSecret(password, true))
			}
		}
	}
}

// within takes what a value holds, whatever its name: passwords of addresses,
// assignments, and tokens.
func (c collector) within(name, value string) {
	for rest := value; ; {
		i := strings.Index(rest, userinfoStart)
		if i < 0 {
			break
		}
		if sp, ok := userinfo([]byte(rest), i); ok {
			c.userinfo(name, rest[i+len(userinfoStart):], rest[sp.start:sp.end])
		}
		rest = rest[i+len(userinfoStart):]
	}
	if strings.Contains(value, userinfoStart) && strings.ContainsAny(value, "?&") {
		for _, m := range queryKey().FindAllStringSubmatch(value, -1) {
			c.add(m[1], m[2], minLength, false)
			if plain, err := url.QueryUnescape(m[2]); err == nil {
				c.add(m[1], plain, minLength, false)
			}
		}
	}
	for _, m := range assignments(value) {
		name, assigned := strings.TrimLeft(value[m[2]:m[3]], "-"), value[m[4]:m[5]]
		// ${secret:NAME} only says where the secret is.
		if isPlace(assigned) || strings.HasSuffix(value[:m[0]], "${") {
			continue
		}
		c.add(name, assigned, minLength, isCertain(name, assigned))
		if plain, err := url.QueryUnescape(assigned); err == nil {
			c.add(name, plain, minLength, isCertain(name, plain))
		}
	}
	if isToken(value) {
		c.add(name, value, minUntold, true)
	}
}

// assignmentWords are parts of the words that assignment needs.
var assignmentWords = []string{"passw", "pwd", "secret", "token", "key", "signature"}

// assignments are the matches of assignment. Most values have none of its words, which
// takes the pattern a hundred times as long to find out.
func assignments(value string) [][]int {
	lower := strings.ToLower(value)
	if !strings.ContainsFunc(value, func(r rune) bool { return r >= utf8.RuneSelf }) && // some fold to ASCII
		!slices.ContainsFunc(assignmentWords, func(word string) bool { return strings.Contains(lower, word) }) {
		return nil
	}
	return assignment().FindAllStringSubmatchIndex(value, -1)
}

// userinfo takes a password, and the pair that Basic makes of it. address is
// what follows ://.
func (c collector) userinfo(name, address, password string) {
	c.add(name, password, minLength, isConfiguredSecret(password, true))
	plain, err := url.PathUnescape(password)
	if err != nil {
		return
	}
	c.add(name, plain, minLength, isConfiguredSecret(plain, true))
	if user, _, ok := strings.Cut(address, ":"); ok {
		if user, err := url.PathUnescape(user); err == nil {
			c.add(name, user+":"+plain, minUntold, true)
		}
	}
}

// isToken says whether a whole value looks like a token. In a value of the
// configuration a prefix says more than in a text.
func isToken(value string) bool {
	const (
		leastPrefixed, leastHex, leastMixed = 12, 32, 20
		longest                             = 4 << 10
	)
	if len(value) < leastPrefixed || len(value) > longest || isPlace(value) {
		return false
	}
	var upper, lower, digits, hex int
	for i := range len(value) {
		c := value[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= 'a' && c <= 'z':
			lower++
		case !contains("_-.+/=~", c):
			return false
		}
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' {
			hex++
		}
	}
	for i := range shapes {
		if strings.HasPrefix(value, shapes[i].prefix) && digits > 0 {
			return true
		}
	}
	return hex == len(value) && hex >= leastHex && digits < hex || len(value) >= leastMixed && upper > 1 && lower > 1 && digits > 1
}

// written is what was collected, by how it may stand in a text.
func (c collector) written() map[string]found {
	written := map[string]found{}
	add := func(forms []string, f found) {
		for _, w := range forms {
			one := f
			if old, ok := written[w]; ok {
				one = old.and(f)
			}
			written[w] = one
		}
	}
	for value, f := range c {
		add(writings(value), f)
		for _, line := range lines(value) {
			add(spellings(line), found{f.name, f.certain && isCertainLine(line)})
		}
	}
	return written
}

// lines are what is looked for of a value with several lines.
func lines(value string) (out []string) {
	if !strings.ContainsAny(value, "\r\n") {
		return nil
	}
	for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if len(line) >= minUntold && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

// member matches a line that gives a name a value, as JSON and the heads of keys do.
var member = lazyregexp.New(`^["']?([\w.-]+)["']?\s*[=:]([^=].*)$`)

// isCertainLine says whether a line of a secret goes from results as well. One such
// as "enabled": true stands in many others.
func isCertainLine(line string) bool {
	const around = ` "',`
	if m := member().FindStringSubmatch(line); m != nil {
		return isConfiguredSecret(strings.Trim(m[2], around), chosenWords().MatchString(m[1]))
	}
	line = strings.TrimSpace(strings.Trim(line, around))
	return line != "" && !isWhere(line)
}

// spellings are a value, how strings in JSON and Go write it, also such as stand in
// strings themselves, and how forms write its blanks. What else is escaped in URLs is
// read where it stands, as are the escapes that nobody has to write (escapes.go).
func spellings(value string) []string {
	html, _ := json.Marshal(value) // a string always marshals
	goQuoted := strconv.Quote(value)
	out := []string{value, string(html[1 : len(html)-1])}
	for _, written := range []string{inJSON(value), goQuoted[1 : len(goQuoted)-1]} {
		out = append(out, written)
		for range deepest - 1 {
			if !strings.Contains(written, `\`) {
				break
			}
			written = inJSON(written)
			out = append(out, written)
		}
	}
	if len(value) >= minUntold && strings.Contains(value, " ") {
		out = append(out, strings.ReplaceAll(value, " ", "+"))
	}
	return out
}

// inJSON is a text with the escapes that a string of JSON needs, and no others.
func inJSON(text string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always marshals
	return out.String()[1 : out.Len()-len("\"\n")]
}

// writings are the forms in which a value as a whole may stand in a text. All of
// them have at least minLength bytes.
func writings(value string) []string {
	out := spellings(value)
	if len(value) >= minUntold {
		out = append(out, base64.RawStdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value)))
	}
	return out
}
