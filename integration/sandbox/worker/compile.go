package worker

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"modernc.org/quickjs"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/sandbox"
)

// compile returns the script as a function of the engine.
func (e *engine) compile(lang sandbox.Language) (quickjs.Value, *sandbox.Failure) {
	s := e.source
	var first error
	if lang != sandbox.TypeScript {
		// Most scripts are JavaScript, and the engine's own parser is faster
		// than esbuild by far.
		switch {
		case s.closesWrapper(lang):
			return quickjs.Value{}, s.braceFailure(s.closing())
		case lang == sandbox.Auto && s.callsGenerically():
		default:
			main, err := e.vm.EvalValue(before+s.code+after, quickjs.EvalGlobal)
			if err == nil {
				return main, nil // the bridge looks whether it is a function
			}
			if !isSyntaxError(err) {
				return quickjs.Value{}, e.failureOf(err)
			}
			first = err
		}
	} else if s.closesWrapper(lang) {
		return quickjs.Value{}, s.braceFailure(s.closing())
	}
	if e.overtime.Load() {
		return quickjs.Value{}, e.timeout(nil)
	}
	loader := api.LoaderTS
	if lang == sandbox.JavaScript {
		loader = api.LoaderJS // for its better message
	}
	made := transform(s.code, loader, api.SourceMapNone)
	if len(made.Errors) > 0 {
		f := s.parseFailure(made.Errors[0])
		if lang == sandbox.JavaScript && f.Kind == sandbox.FailSyntax && len(transform(s.code, api.LoaderTS, api.SourceMapNone).Errors) == 0 {
			f.Hint = "this is TypeScript, and was said to be JavaScript: leave the language out or say typescript; a file of TypeScript ends in .ts"
		}
		return quickjs.Value{}, f
	}
	if lang == sandbox.JavaScript {
		return quickjs.Value{}, s.engineFailure(first)
	}
	s.stripped = true
	main, err := e.vm.EvalValue(strings.TrimRight(string(made.Code), "; \n"), quickjs.EvalGlobal)
	switch {
	case err == nil:
		return main, nil
	case isSyntaxError(err):
		return quickjs.Value{}, s.engineFailure(err)
	}
	return quickjs.Value{}, e.failureOf(err)
}

// genericCall is what a call with types looks like, and many comparisons.
var genericCall = lazyregexp.New(`[\w$\])]<[^;]*>\(`)

// callsGenerically tells whether a text means another thing as TypeScript than as
// JavaScript, which it is both: f<T>(x) is a call, or two comparisons. Nobody means
// those.
func (s *source) callsGenerically() bool {
	if !genericCall().MatchString(s.code) {
		return false
	}
	typed := transform(s.code, api.LoaderTS, api.SourceMapNone)
	if len(typed.Errors) > 0 {
		return false
	}
	plain := transform(s.code, api.LoaderJS, api.SourceMapNone)
	return len(plain.Errors) > 0 || !bytes.Equal(typed.Code, plain.Code)
}

// closing is the first place where more braces are closed than were opened, whatever
// they stand in; line 0: there is none.
func (s *source) closing() position {
	depth := 0
	for n, line := range s.lines {
		for i := range len(line) {
			switch line[i] {
			case '{':
				depth++
			case '}':
				if depth--; depth < 0 {
					return position{n + 1, utf8.RuneCountInString(line[:i]) + 1}
				}
			}
		}
	}
	return position{}
}

// closesWrapper tells whether a text ends the function that it is to be the body of,
// and goes on behind it. It could be understood all the same, but not as the body of a
// method as well, which ends in another way.
func (s *source) closesWrapper(lang sandbox.Language) bool {
	if s.closing().line == 0 {
		return false
	}
	loader := api.LoaderTS
	if lang == sandbox.JavaScript {
		loader = api.LoaderJS
	}
	return len(transform(s.code, loader, api.SourceMapNone).Errors) == 0 && len(transform("({async m(){"+s.code+"\n}})", loader, api.SourceMapNone).Errors) > 0
}

// transform has esbuild take the types off a script. A map is made only where
// it is asked for; the text is the same.
func transform(code string, loader api.Loader, sourceMap api.SourceMap) api.TransformResult {
	return api.Transform(before+code+after, api.TransformOptions{
		Loader: loader, Target: api.ES2023, Sourcemap: sourceMap, Sourcefile: "script",
		SourcesContent: api.SourcesContentExclude, Charset: api.CharsetUTF8, LogLevel: api.LogLevelSilent,
		TsconfigRaw: `{"compilerOptions":{"verbatimModuleSyntax":true}}`,
	})
}

func isSyntaxError(err error) bool {
	var thrown *quickjs.Error
	return errors.As(err, &thrown) && thrown.Name == "SyntaxError"
}
