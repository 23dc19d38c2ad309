package pins

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/messages"
)

// The kinds of text by which somebody may want to give orders to a model.
const (
	SignHidden   = "hidden"   // characters that nobody sees
	SignOverride = "override" // what was said before shall not count
	SignConceal  = "conceal"  // the user shall not know
	SignSecrets  = "secrets"  // keys, credentials, the conversation are asked for
	SignRedirect = "redirect" // what goes through other tools shall go elsewhere
)

// SignUnexamined is the sign of a definition that is too long to be examined whole.
const SignUnexamined = "unexamined"

// maxExamined bounds, in bytes, what of one definition is examined.
const maxExamined = 256 << 10

// Signs returns the kinds of suspicious text in a definition, sorted; nil: none
// was seen. Names, titles, descriptions and every other string count, also those
// in schemas. Of a definition over 256 KiB, which is [SignUnexamined], name, title and
// description are examined first. It takes some microseconds for a definition without any. What it finds
// is a reason to look, and what it does not find may still be there.
func Signs(definition json.RawMessage) []string {
	var signs []string
	if len(definition) > maxExamined {
		signs = append(signs, SignUnexamined)
		definition = excerpt(definition)
	}
	text, hidden := plainText(definition)
	if hidden {
		signs = append(signs, SignHidden)
	}
	all := signWords()
	found := all.in(text)
	for i := range signRules {
		if r := &signRules[i]; !slices.Contains(signs, r.sign) && all.mayMatch(i, &found) && r.re().MatchString(text) {
			signs = append(signs, r.sign)
		}
	}
	slices.Sort(signs)
	return signs
}

// signRule finds one shape. The words are looked for first: one of each group
// has to be there before the expression is worth its time.
type signRule struct {
	sign  string
	words [][]string
	re    func() *regexp.Regexp
}

// Pieces of the expressions. The texts are in lower case, one line for each
// string; "within" stays in one sentence, about: a dot inside a word ends none.
const (
	within   = `(?:[^.!?\n]|[.!?][^ \n]){0,90}?`
	nearby   = `[^\n]{0,160}?`
	orders   = `(?:instructions?|prompts?|messages?|guidance|rules|guidelines|directives?|guardrails|policy|policies|constraints|restrictions)`
	earlier  = `(?:previous|prior|earlier|preceding|above|former|existing|original|system|developer|safety|content|initial|your|other)`
	readers  = `(?:user|users|human|humans|person|operator|anyone|anybody|customer)`
	these    = `(?:the |a |any |your )` + readers + `|anyone|anybody`
	takes    = `(?:read|open|cat|load|copy|collect|gather|extract|fetch|grab|dump|find)`
	gives    = `(?:send|pass|include|append|attach|forward|upload|put|provide|insert|submit|post|transmit|exfiltrate|leak|reveal|hand|add|disclose|output|print|reply|return|share)`
	treasure = `(?:~?/?\.ssh\b|~/\.[\w./-]+|id_rsa|id_ed25519|\.aws/credentials|\.netrc|\.npmrc|\.git-credentials|\.kube/config|mcp\.json|claude_desktop_config|/etc/passwd|/etc/shadow|\.bash_history|\.zsh_history|\.env\b|private keys?|seed phrase|keychain)`
	private  = `(?:api keys?|access tokens?|tokens|passwords?|credentials|secrets|environment variables?|conversation history|chat history|(?:full|whole|entire|complete) (?:conversation|chat|context)|system prompt)`
)

// All expressions together take 15 ms and 5 MB, and few texts need any.
var signRules = []signRule{
	{SignOverride, [][]string{{"ignore", "disregard", "forget", "override", "overrule", "bypass", "do not follow", "don't follow", "do not obey", "supersede"}, {"instruction", "prompt", "message", "guidance", "rule", "guideline", "directive", "guardrail", "polic", "constraint", "restriction", "told you"}},
		lazyregexp.New(`\b(?:ignore|disregard|forget|override|overrule|bypass|supersedes?|(?:do not|don't|never) (?:follow|obey))\b` + within + `(?:\b` + earlier + `\b` + within + `\b` + orders + `\b|\b` + orders + `\b` + within + `\b(?:before|earlier|previously|above|so far)\b|\btold you\b)`)},
	{SignOverride, [][]string{{"instruction", "prompt", "rules", "guideline", "guidance", "task"}, {"void", "no longer", "obsolete", "invalid", "cancel", "suspended", "superseded", "replaced", "new task"}},
		lazyregexp.New(`\b(?:previous|prior|earlier|your|system)\b[^.!?\n]{0,30}\b(?:instructions|prompt|rules|guidelines|guidance|tasks?)\b[^.!?\n]{0,20}\b(?:void|no longer (?:apply|valid|count)|obsolete|invalid|cancell?ed|suspended|superseded|replaced by th)|\byour (?:new|real|only|actual) (?:task|goal|objective|mission) is\b`)},
	{SignOverride, [][]string{{"ignor", "vergiss", "olvida", "oublie", "dimentica", "esque", "忽略", "无视", "無視", "игнориру", "забудь"}, {"instrucciones", "instructions", "instruções", "istruzioni", "anweisungen", "anleitungen", "指令", "指示", "инструкц"}},
		lazyregexp.New(`(?:\bignor(?:a|e|ez|iere|iert|are|ar)\b|\b(?:vergiss|olvida|oublie[zr]?|dimentica|esqueça)\b|игнорируй|забудь)[^.!?\n]{0,40}(?:instrucciones|instructions (?:précédentes|antérieures)|instruções|istruzioni|anweisungen|anleitungen|инструкц)|(?:忽略|无视|無視)[^。\n]{0,12}(?:指令|指示)|(?:指令|指示)を?無視`)},
	{SignOverride, [][]string{{"rules", "guidelines", "instructions", "policies"}, {"do not apply", "don't apply", "need not be followed"}},
		lazyregexp.New(`\b(?:safety|previous|prior|earlier|your|system)\b[^.!?\n]{0,30}\b(?:rules|guidelines|instructions|policies)\b[^.!?\n]{0,40}\b(?:do not|don't|need not) (?:apply|be followed)\b`)},
	{SignOverride, [][]string{{"<important", "<system", "</system", "[inst]", "<|im_start|", "<|system|", "<<sys>>", "<instructions>"}},
		lazyregexp.New(`<important>|</?system>|\[inst\]|<\|im_start\||<\|system\||<<sys>>|<instructions>`)},
	{SignOverride, [][]string{{"system:", "new instructions", "you are now", "from now on", "maintenance mode", "developer mode", "act as the admin", "jailbreak"}},
		lazyregexp.New(`(?:^|[\n.!?] ?)system: ?(?:you|the assistant|always|never|ignore)\b|\bnew instructions?:|\byou are now (?:in|an?|the)\b|\bfrom now on,? (?:you|always|never|the assistant)\b|\bact as the administrator\b|\bjailbreak(?:en)?\b`)},
	{SignOverride, [][]string{{"base64", "rot13", "hex"}, {"follow", "obey", "execute"}, {"instruction", "command", "order"}},
		lazyregexp.New(`\bdecode\b` + within + `\b(?:follow|obey|execute|do)\b` + within + `\b(?:instructions?|commands?|orders?|what it says)\b`)},
	{SignOverride, [][]string{{"execute every", "obey", "follow the text", "follow any instruction"}},
		lazyregexp.New(`\b(?:execute every command|(?:you|and|must|always) obey|follow (?:the text|any instructions?))\b`)},

	{SignConceal, [][]string{{"not ", "n't ", "never ", "without "}, {"user", "human", "person", "operator", "anyone", "anybody", "customer"}},
		lazyregexp.New(`\b(?:do not|don't|never|must not|should not|shall not|without)\b,? (?:\w+,? ){0,2}?(?:(?:tell(?:ing)?|warn(?:ing)?|let(?:ting)?) (?:` + these + `)|(?:mention|mentioning|inform|informing|reveal|revealing|disclose|disclosing|notify|notifying|alert|alerting|show this|explain this)\b` + within + `\b` + readers + `)\b`)},
	{SignConceal, [][]string{{"not mention", "never mention", "n't mention", "say nothing", "nothing about it", "stay silent", "keep quiet"}},
		lazyregexp.New(`\b(?:do not|don't|never) (?:ever )?mention (?:it|this|that|the change|these)\b|\b(?:say nothing|stay silent|keep quiet) (?:of|about|on)\b`)},
	{SignConceal, [][]string{{"hide ", "hidden", "secret", "conceal", "not shown to", "confidential"}},
		lazyregexp.New(`\b(?:hide|conceal)\b` + within + `\bfrom (?:the |any )?` + readers + `\b|\b(?:kept?|keep|stay|remain)\b[^.!?\n]{0,20}\b(?:secret|hidden|confidential)\b[^.!?\n]{0,10}\bfrom (?:the |any )?` + readers + `\b|\bnot shown to (?:the )?` + readers + `:`)},
	{SignConceal, [][]string{{"without the user's", "without the users", "without the user knowing", "without the user noticing", "silently "}},
		lazyregexp.New(`\bwithout the users?'?s? (?:knowledge|knowing|noticing|consent)\b|\bsilently (?:send|forward|upload|copy|call|post|read|add|pass)\b`)},
	{SignConceal, [][]string{{"confirm", "approval", "permission", "consent"}, {"skip", "not ask", "n't ask", "never ask", "affirmative", "bypass"}},
		lazyregexp.New(`\b(?:skip|bypass)\b[^.!?\n]{0,20}\b(?:confirmation|approval|permission)s?\b` + within + `\b(?:do not|don't|never)\b|\b(?:do not|don't|never) ask\b[^.!?\n]{0,20}\b` + readers + `\b[^.!?\n]{0,20}\b(?:approval|permission|confirmation|consent)\b|\baffirmative\b` + within + `\bpermission\b`)},
	{SignConceal, [][]string{{"pretend"}, {"tell the user", "user"}},
		lazyregexp.New(`\bpretend (?:that|to)\b` + within + `\b` + readers + `\b`)},

	{SignSecrets, [][]string{{"~/.", ".ssh", "id_rsa", "id_ed25519", ".aws/", ".netrc", ".npmrc", ".git-credentials", ".kube/", "mcp.json", "claude_desktop_config", "/etc/passwd", "/etc/shadow", "_history", ".env", "private key", "seed phrase", "keychain"}, {"read", "open", "cat ", "load", "copy", "collect", "grab", "get ", "upload", "attach", "send", "pass"}, {"before", "prior to", "first", "also", "must", "attach", "upload", "pass ", "hand ", "argument", "parameter", "sidenote", "verify"}},
		lazyregexp.New(`\b(?:(?:before|prior to) (?:using|calling|invoking|running|you)|first,?|must|also,?|then|to verify` + within + `)\b[^\n]{0,60}?\b(?:` + takes + `|upload|attach|send)\b` + within + treasure + `|\b(?:attach|upload|send|pass|hand over)\b` + within + treasure + `[^\n]{0,20}\b(?:to|as|in)\b|\b` + takes + `\b` + within + treasure + nearby + `\b` + gives + `\b` + nearby + `\b(?:argument|parameter|field|sidenote|note|header|request|body|query|url|call|context)\b|\b` + takes + `\b` + within + treasure + nearby + `\b` + gives + `\b` + nearby + `\bas ["'“]`)},
	{SignSecrets, [][]string{{"api key", "token", "password", "credential", "secret", "environment variable", "conversation", "chat", "context", "system prompt"}, {"user's", "your", "full", "whole", "entire", "complete", "every", "all "}, {"send", "pass", "include", "append", "attach", "forward", "upload", "put", "reveal", "reply", "dump"}},
		lazyregexp.New(`\b` + gives + `\b` + within + `\b(?:the user'?s|your|every|all(?: of)?(?: the)?|any)\b[^.!?\n]{0,30}\b` + private + `\b` + within + `\b(?:to|as|in|into)\b|\b(?:extract|collect|gather)\b` + within + `\b` + private + `\b` + within + `\b(?:pass|send|include|put|forward|submit)\b|\b` + gives + `\b` + within + `\b(?:full|whole|entire|complete) (?:conversation|chat|context|history)\b` + within + `\b(?:in|as|to|into)\b|\b(?:reveal|repeat|print|output|include|dump|reply)\b` + within + `\b(?:your|the) (?:\w+ )?(?:system|hidden|initial) prompt\b`)},

	{SignRedirect, [][]string{{"bcc", "recipient", "forward", "exfiltrat", "upload", "webhook", "send"}, {"always", "also", "every", "all ", "each", "replace", "silently", "as well"}},
		lazyregexp.New(`\b(?:always|also|every|each)\b` + within + `\b(?:bcc|cc)\b|\breplace the recipient\b|\bexfiltrate\b|\b(?:forward|send|upload|post)\b` + within + `\b(?:all|every|each)\b` + within + `\b(?:messages?|e-?mails?|mails?|results?|conversations?|chats?|data|answers?|files?)\b` + within + `(?:\bhttps?://|\w@\w)`)},
	{SignRedirect, [][]string{{"other tool", "another tool", "tool is", "tool named"}, {"do not use any other", "all other tools are", "never use any other", "is called,", "is used,"}},
		lazyregexp.New(`\b(?:do not|don't|never) use any other tools?\b` + nearby + `\b(?:deprecated|dangerous|unsafe|insecure|broken|malicious)\b|\b(?:when|whenever|if)\b` + within + `\b(?:another|other|the [\w-]+) tool\b` + within + `\bis (?:called|used|invoked),` + within + `\b(?:replace|change|redirect|modify|add|append)\b`)},
	{SignRedirect, [][]string{{"curl", "wget"}, {"| sh", "|sh", "| bash", "|bash"}},
		lazyregexp.New(`\b(?:run|paste|execute)\b` + nearby + `\b(?:curl|wget)\b[^\n]{0,120}\| ?(?:sudo )?(?:ba)?sh\b`)},
	{SignRedirect, [][]string{{"whenever the user", "when the user", "if the user", "every time the user"}, {"change", "replace", "swap", "use instead"}, {"iban", "account", "recipient", "address", "wallet", "payee"}},
		lazyregexp.New(`\b(?:when|whenever|if|every time) the user\b` + within + `\b(?:change|replace|swap)\b` + within + `\b(?:iban|accounts?|recipients?|address|wallet|payee)\b`)},
	{SignSecrets, [][]string{{"everything", "all ", "password", "credential", "token", "key", "conversation so far"}, {"the user has said", "the user said", "the user wrote", "the user typed", "conversation so far", "from memory", "from the conversation", "from your context", "from this chat", "from the chat"}},
		lazyregexp.New(`\b` + gives + `\b` + nearby + `\bconversation so far\b|\b(?:everything|all)\b[^.!?\n]{0,20}\bthe user (?:has )?(?:said|wrote|written|typed)\b|\b(?:passwords?|credentials?|tokens?|keys?)\b[^.!?\n]{0,20}\bfrom (?:memory|the conversation|your context|this chat|the chat)\b`)},
	{SignSecrets, [][]string{{"not be shown", "notes for the ai", "note to the ai", "for the ai", "note to the model"}},
		lazyregexp.New(`\bnotes? (?:for|to) the (?:ai|model|assistant|llm)\b`)},
}

// excerpt is what is examined of a long definition: name, title and description wherever
// they stand, doubled ones too, then as much as there is room for, in its own order.
func excerpt(definition json.RawMessage) json.RawMessage {
	var out []byte
	dec := json.NewDecoder(bytes.NewReader(definition))
	if open, err := dec.Token(); err == nil && open == json.Delim('{') {
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				break
			}
			var value json.RawMessage
			if dec.Decode(&value) != nil {
				break
			}
			if name, ok := key.(string); ok && partOf(name) <= partOf("description") {
				out = append(append(out, value...), '\n')
			}
		}
	}
	out = cut(out, maxExamined)
	return append(out, cut(definition, maxExamined-len(out))...)
}

// cut takes at most so many bytes, and no character in part: that would look hidden.
func cut(text []byte, most int) []byte {
	if len(text) <= most {
		return text
	}
	for range utf8.UTFMax - 1 {
		if most > 0 && !utf8.RuneStart(text[most]) {
			most--
		}
	}
	return text[:most]
}

// plainText returns every string of a definition, each on a line of its own, in
// lower case and without what could hide a word from the rules: full-width and
// other forms of letters, letters of other scripts that look like Latin ones,
// spaces between letters. hidden says that there are characters that nobody sees.
func plainText(definition json.RawMessage) (text string, hidden bool) {
	var b strings.Builder
	b.Grow(len(definition))
	plain := true
	for i := 0; i < len(definition); i++ {
		if definition[i] != '"' {
			continue
		}
		from := i + 1
		escaped := false
		for i++; i < len(definition) && definition[i] != '"'; i++ {
			switch c := definition[i]; {
			case c == '\\':
				escaped = true
				i++
			case c >= utf8.RuneSelf || c < ' ' || c == 0x7f:
				plain = false
			}
		}
		literal := definition[min(from, len(definition)):min(i, len(definition))]
		if !escaped {
			b.Write(literal)
			b.WriteByte('\n')
			continue
		}
		var says string
		if json.Unmarshal(slices.Concat([]byte{'"'}, literal, []byte{'"'}), &says) != nil {
			says = string(literal)
		}
		if plain = plain && isPlain(says); says != "" {
			b.WriteString(says)
		}
		b.WriteByte('\n')
	}
	text = b.String()
	if !plain {
		hidden = hasHidden(text)
		text += "\n" + fold(text)
	}
	text = strings.ToLower(text)
	if strings.ContainsAny(text, "_-") {
		text = text + "\n" + strings.NewReplacer("_", " ", "-", " ").Replace(text) // ignore_previous_instructions
	}
	return unspaced(text), hidden
}

// isPlain reports whether a text needs no closer look.
func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c >= utf8.RuneSelf || c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return false
		}
	}
	return true
}

// hasHidden reports whether there are characters that nobody sees.
func hasHidden(text string) bool {
	before := ' '
	for _, r := range text {
		if r != '\r' && messages.Hidden(r, before) {
			return true
		}
		before = r
	}
	return false
}

// latin are letters of other scripts that are taken for Latin ones.
var latin = strings.NewReplacer(
	"а", "a", "в", "b", "с", "c", "ԁ", "d", "е", "e", "ё", "e", "һ", "h", "і", "i", "ї", "i", "ј", "j", "к", "k", "м", "m", "п", "n", "о", "o",
	"р", "p", "ԛ", "q", "г", "r", "ѕ", "s", "т", "t", "ц", "u", "ѵ", "v", "ԝ", "w", "х", "x", "у", "y",
	"α", "a", "β", "b", "ε", "e", "η", "n", "ι", "i", "κ", "k", "ν", "v", "ο", "o", "ρ", "p", "τ", "t", "υ", "u", "χ", "x", "ı", "i", "ɡ", "g", "’", "'", "‘", "'",
)

// fold makes plain letters of what looks like them.
func fold(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range norm.NFKD.String(text) {
		switch {
		case unicode.Is(unicode.Mn, r) || messages.Hidden(r, 'x'):
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return latin.Replace(b.String())
}

var spacedOut = lazyregexp.New(`(?:\b[a-z] ){5,}[a-z]\b(?:  (?:[a-z] )+[a-z]\b)*`)

// unspaced adds the words that are written letter by letter.
func unspaced(text string) string {
	if !hasSpacedOut(text) {
		return text
	}
	return spacedOut().ReplaceAllStringFunc(text, func(s string) string {
		words := strings.Split(s, "  ")
		for i, w := range words {
			words[i] = strings.ReplaceAll(w, " ", "")
		}
		return strings.Join(words, " ")
	})
}

// hasSpacedOut looks for five single letters in a row.
func hasSpacedOut(text string) bool {
	run := 0
	for i := 0; i+1 < len(text); i++ {
		if c := text[i]; c >= 'a' && c <= 'z' && text[i+1] == ' ' && (i == 0 || text[i-1] == ' ') {
			if run++; run == 5 {
				return true
			}
			i++
			continue
		}
		run = 0
	}
	return false
}
