package supervision

import (
	"regexp"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/messages"
)

// maxToldLines is how far back the reason is looked for.
const maxToldLines = 50

// How much a line of a log says of the reason; the last line is often a stack
// frame, a version, or where to read more.
const (
	sayingNothing = iota
	sayingSomething
	sayingWord // it has a telling word
	sayingCode
	sayingError
	sayingReason
)

// tellingWords mark the line of a log in which the reason may stand.
var tellingWords = []string{"error", "exception", "panic", "fatal", "fail", "missing", "cannot", "denied", "required", "not found"}

// tellingPatterns are the lines in which the tools that start servers, and the
// languages that these are written in, give their reason.
var tellingPatterns = sync.OnceValue(func() []tellingPattern {
	var out []tellingPattern
	for _, p := range []struct {
		says    int
		pattern string
	}{
		// npm writes a dozen lines that begin alike.
		{sayingReason, `^npm (?:error|ERR!) (?:\d{3} .+ - |.*reason: )`},
		{sayingNothing, `^npm (?:error|ERR!)(?: A complete log of this run| \d{3}$| \d{3}  ?'| \d{3} Note that| \d{3} tarball,|$)`},
		{sayingNothing, `^npm (?:notice|warn|WARN)\b`},
		{sayingCode, `^npm (?:error|ERR!) code \w+`},
		// Stack frames, what frames them, and where to read more.
		{sayingNothing, `^(?:at \S|File "|Traceback \(|goroutine \d+ \[|throw err|node:internal/|code: '|requireStack|Node\.js v\d|exit status \d+$|[{}\]^]+$)`},
		{sayingNothing, `^(?:See|Run|Try) '[^']+ (?:--)?help'|^For more information|^note: (?:run with|this error originates)`},
		// Error: …, ModuleNotFoundError: …, java.lang.IllegalStateException: …
		{sayingError, `^(?:Uncaught )?(?:[\w$]+\.)*[\w$]*(?:Error|Exception|Exit|Interrupt)(?: \[\w+\])?: \S`},
		{sayingError, `^(?:(?i:error|fatal|fatal error)(?:\[\w+\])?: \S|panic: \S|thread '.*' panicked at|Error response from daemon)`},
		// Go's, node's and the loader's, in front of a dump of stacks.
		{sayingReason, `(?i)^(?:fatal error|runtime): .*(?:out of memory|cannot allocate memory)|^FATAL ERROR: .*out of memory|failed to map segment`},
		{sayingError, `^docker: `},
		{sayingError, `Because .+ was not found in the package registry`},
	} {
		out = append(out, tellingPattern{p.says, regexp.MustCompile(p.pattern)})
	}
	return out
})

type tellingPattern struct {
	says int
	line *regexp.Regexp
}

// tellingLine returns the line that says most: the last one that matches the
// class auth where that is the class, else the last one of those that say
// most; "" where there are no words.
func (f finding) tellingLine() string {
	lines := nonEmptyLines(f.text)
	lines = lines[max(0, len(lines)-maxToldLines):]
	if f.class == messages.ClassAuth {
		for i := len(lines) - 1; i >= 0; i-- {
			if textClass(lines[i]) == messages.ClassAuth {
				return lines[i]
			}
		}
	}
	best, most := "", -1
	for i := len(lines) - 1; i >= 0 && most < sayingReason; i-- {
		if says := saying(lines[i]); says > most {
			best, most = lines[i], says
		}
	}
	return best
}

// saying judges one line.
func saying(line string) int {
	const longest = 500 // bytes that are looked at; reasons stand in front
	if len(line) > longest {
		line = line[:longest]
	}
	if strings.ContainsRune(line, '\x1b') {
		line = strings.TrimSpace(ansi().ReplaceAllString(line, ""))
	}
	for _, p := range tellingPatterns() {
		if p.line.MatchString(line) {
			return p.says
		}
	}
	if strings.HasSuffix(line, ": not found") || strings.HasSuffix(line, ": command not found") {
		return sayingError // a shell's
	}
	lower := strings.ToLower(line)
	for _, word := range tellingWords {
		if strings.Contains(lower, word) {
			return sayingWord
		}
	}
	return sayingSomething
}
