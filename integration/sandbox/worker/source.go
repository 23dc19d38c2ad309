package worker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"
	"modernc.org/quickjs"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/sandbox"
)

// A script is the body of an async function, so that it may await and return.
// The wrapper adds no line.
const (
	before = `(async()=>{"use strict";`
	after  = "\n})"
)

// source is the author's text, and how positions in what was compiled become
// positions in it.
type source struct {
	code  string
	lines []string
	// stripped is true where the engine was given what esbuild has made.
	stripped bool
	// mapping leads from that to what esbuild was given. Only who asks for a
	// place needs it, so it is made then; nil: not yet, or it cannot be made.
	mapping *sourcemap.Consumer
}

func newSource(code string) *source {
	code = strings.TrimPrefix(code, "\ufeff")
	if rest, ok := strings.CutPrefix(code, "#!"); ok {
		code = "//" + rest // a line for a shell
	}
	return &source{code: code, lines: strings.Split(code, "\n")}
}

func (s *source) check(limit int) *sandbox.Failure {
	switch {
	case len(s.code) > limit:
		return &sandbox.Failure{
			Kind:    sandbox.FailCode,
			Message: fmt.Sprintf("the code is %s long; the limit is %s", bytesText(int64(len(s.code))), bytesText(int64(limit))),
			Hint:    "leave data out of the code: read it from a tool, or from results of an earlier run",
		}
	case len(s.lines) >= bridgeLine:
		return &sandbox.Failure{Kind: sandbox.FailCode, Message: fmt.Sprintf("the code has %d lines; the limit is %d", len(s.lines), bridgeLine-1), Hint: "leave data out of the code"}
	case !utf8.ValidString(s.code):
		return &sandbox.Failure{Kind: sandbox.FailSyntax, Message: "the code is no valid UTF-8", Hint: "send it as UTF-8 text"}
	case strings.ContainsRune(s.code, 0):
		return &sandbox.Failure{Kind: sandbox.FailSyntax, Message: "the code holds a NUL character", Hint: `write \0 in a string instead`}
	}
	return nil
}

// position is a place in the author's text; line 0: not known.
type position struct{ line, column int }

// author turns a place in the compiled text into one in the author's. It
// returns line 0 for what is not the author's: the bridge, or the wrapper.
func (s *source) author(line, column int) position {
	if s.stripped {
		if s.mapping == nil {
			s.mapping, _ = sourcemap.Parse("", transform(s.code, api.LoaderTS, api.SourceMapExternal).Map)
		}
		if s.mapping == nil {
			return position{}
		}
		_, _, l, c, ok := s.mapping.Source(line, column-1)
		if !ok {
			return position{}
		}
		line, column = s.recounted(l, c+1)
	}
	return s.unwrapped(line, column)
}

// otherEnds are the ends of lines that esbuild counts beside \n, as the standard does.
// The engine does not, nor does who reads the text.
const otherEnds = "\r\u2028\u2029"

// recounted turns a place as esbuild counts lines into one by \n alone.
func (s *source) recounted(line, column int) (int, int) {
	if !strings.ContainsAny(s.code, otherEnds) {
		return line, column
	}
	own, at := 1, utf8.RuneCountInString(before) // in our line, the character that comes next
	rest := s.code
	for n := 1; n < line && rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		rest = rest[size:]
		switch {
		case r == '\n':
			n, own, at = n+1, own+1, 0
		case strings.ContainsRune(otherEnds, r) && (r != '\r' || !strings.HasPrefix(rest, "\n")):
			n, at = n+1, at+1
		default:
			at++
		}
	}
	if line == 1 {
		return line, column // with the wrapper in it already
	}
	return own, at + column
}

// unwrapped takes the wrapper off.
func (s *source) unwrapped(line, column int) position {
	if line < 1 || line > len(s.lines) {
		return position{}
	}
	if line == 1 {
		column -= len(before)
		if column < 1 {
			return position{}
		}
	}
	return position{line, max(column, 1)}
}

// end is the last place of the text, where what is missing is missed.
func (s *source) end() position {
	for n := len(s.lines); n > 0; n-- {
		if text := strings.TrimRight(s.lines[n-1], " \t\r"); text != "" {
			return position{n, utf8.RuneCountInString(text) + 1}
		}
	}
	return position{1, 1}
}

var loopWord = lazyregexp.New(`^(?:[^"'` + "`" + `/]*\W)?(for|while|do)\b`)

// firstLoop is where the first loop of the text begins, as far as that can be
// seen without understanding it; line 0: there is none.
func (s *source) firstLoop() position {
	for n, line := range s.lines {
		if m := loopWord().FindStringSubmatchIndex(line); m != nil {
			return position{n + 1, utf8.RuneCountInString(line[:m[2]]) + 1}
		}
	}
	return position{}
}

const excerptWidth = 100

// excerpt shows a place: its line, and a caret below.
func (s *source) excerpt(p position) string {
	if p.line < 1 || p.line > len(s.lines) {
		return ""
	}
	text := []rune(strings.TrimRight(s.lines[p.line-1], "\r"))
	at := min(max(p.column-1, 0), len(text))
	from, cut := 0, ""
	if at > excerptWidth*3/4 {
		from, cut = at-excerptWidth/2, "…"
	}
	to, more := len(text), ""
	if to > from+excerptWidth {
		to, more = from+excerptWidth, "…"
	}
	blank := strings.Map(func(r rune) rune {
		if r == '\t' {
			return '\t'
		}
		return ' '
	}, cut+string(text[from:at]))
	head := strconv.Itoa(p.line) + " | "
	return head + cut + string(text[from:to]) + more + "\n" + strings.Repeat(" ", len(head)-2) + "| " + blank + "^"
}

var framePattern = lazyregexp.New(`(?m)^\s*at (?:(.*?) \()?<(?:eval|input)>:(\d+)(?::(\d+))?\)?$`)

const maxFrames = 20

// frames returns the author's frames of an engine's stack, innermost first.
func (s *source) frames(stack string) (first position, text string) {
	var b strings.Builder
	n := 0
	for _, m := range framePattern().FindAllStringSubmatch(stack, -1) {
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		p := s.author(line, max(column, 1))
		if p.line == 0 {
			continue
		}
		if first.line == 0 {
			first = p
		}
		if n++; n > maxFrames {
			b.WriteString("  …\n")
			break
		}
		name := m[1]
		if name == "" || strings.HasPrefix(name, "<") {
			name = "script"
		}
		fmt.Fprintf(&b, "  at %s (%d:%d)\n", name, p.line, p.column)
	}
	return first, strings.TrimSuffix(b.String(), "\n")
}

// wrapperClosed is what esbuild says when the author's code has closed the
// brace of the wrapper.
const wrapperClosed = `Expected ")" but found `

// parseFailure is what esbuild says.
func (s *source) parseFailure(m api.Message) *sandbox.Failure {
	p, text := s.end(), m.Text
	if l := m.Location; l != nil {
		column := utf8.RuneCountInString(l.LineText[:min(l.Column, len(l.LineText))]) + 1
		got := s.unwrapped(s.recounted(l.Line, column))
		switch brace := s.braceBefore(got); {
		case strings.HasPrefix(text, wrapperClosed) && brace.line > 0:
			return s.braceFailure(brace)
		case got.line == 0:
			text = "the code ends early: a bracket, brace or quote is not closed"
		default:
			p = got
		}
	}
	return s.syntaxFailure(text, p)
}

// braceBefore is the last closing brace before a place, and before the end
// where that is not known; line 0 where there is none.
func (s *source) braceBefore(p position) position {
	if p.line == 0 {
		p = position{len(s.lines), len(s.lines[len(s.lines)-1]) + 1}
	}
	for n := p.line; n > 0; n-- {
		text := []rune(s.lines[n-1])
		if n == p.line {
			text = text[:min(len(text), max(p.column-1, 0))]
		}
		for i := len(text) - 1; i >= 0; i-- {
			if text[i] == '}' {
				return position{n, i + 1}
			}
		}
	}
	return position{}
}

func (s *source) braceFailure(p position) *sandbox.Failure {
	return s.syntaxFailure("this brace closes nothing, or more than was opened", p)
}

// engineFailure is what the engine says.
func (s *source) engineFailure(err error) *sandbox.Failure {
	var thrown *quickjs.Error
	if !errors.As(err, &thrown) {
		return internalFailure(err)
	}
	p := s.author(thrown.LineNumber, max(thrown.ColumnNumber, 1))
	if p.line == 0 {
		p = s.end()
	}
	return s.syntaxFailure(thrown.Message, p)
}

var (
	moduleWord = lazyregexp.New(`^\s*(import|export)\b\s*[^\s(.=]`)
	rightAfter = lazyregexp.New(`^(import|export)\b`)
	typeImport = lazyregexp.New(`\bimport\s+type\b`)
	namespace  = lazyregexp.New(`^\s*(?:declare\s+)?(namespace|module|global)\s+[\w$"'{.]`)
)

// fence begins and ends code in a text of Markdown.
const (
	fence     = "```"
	fenceHint = "send the code alone: the lines with " + fence + " belong to the text around it"
)

func (s *source) syntaxFailure(text string, p position) *sandbox.Failure {
	f := &sandbox.Failure{
		Kind: sandbox.FailSyntax, Message: fmt.Sprintf("syntax error in line %d: %s", p.line, strings.TrimSuffix(text, ".")),
		Hint: "correct the code and send it again",
		Line: p.line, Column: p.column, Excerpt: s.excerpt(p),
	}
	if strings.Contains(text, "stack overflow") {
		f.Message = fmt.Sprintf("line %d is nested too deeply to be understood", p.line)
		f.Hint = "take the expression apart, and give its parts names"
	}
	line := s.lines[p.line-1]
	at := min(max(p.column-1, 0), len(line))
	if m := namespace().FindStringSubmatch(line); m != nil {
		f.Kind = sandbox.FailUnsupported
		f.Message = fmt.Sprintf("line %d declares a %s, and a script is the body of a function, where there is none", p.line, m[1])
		f.Hint = "write an object, or functions and constants as they are"
		return f
	}
	if strings.HasPrefix(strings.TrimSpace(line), fence) {
		f.Hint = fenceHint
		return f
	}
	word := ""
	if m := moduleWord().FindStringSubmatch(line); len(m) > 1 {
		word = m[1]
	} else if m := rightAfter().FindStringSubmatch(line[at:]); len(m) > 1 {
		word = m[1]
	}
	switch word {
	case "import":
		f.Kind = sandbox.FailUnsupported
		f.Message = fmt.Sprintf("line %d imports a module, and there are no modules in this sandbox", p.line)
		f.Hint = "leave the import out: servers, discover, sleep, console and standard ECMAScript are there already"
		if typeImport().MatchString(line) {
			f.Message = fmt.Sprintf("line %d imports types, and there are no modules in this sandbox", p.line)
			f.Hint = "leave the import out: types are taken off and not checked; declare those that you want in the script itself"
		}
	case "export":
		f.Kind = sandbox.FailUnsupported
		f.Message = fmt.Sprintf("line %d exports something, and a script is no module", p.line)
		f.Hint = "leave export out, and return what the script has found"
	}
	return f
}
