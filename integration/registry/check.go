package registry

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/messages"
)

// Bounds on one entry, in bytes where nothing else is said. The published
// schema allows names of 200, descriptions of 100 and versions of 255
// characters; other registries are more generous.
const (
	maxName        = 200
	maxText        = 1000 // characters of a description
	maxMessage     = 500
	maxIdentifier  = 2048
	maxVersion     = 255
	maxValue       = 4096
	maxPerServer   = 50  // packages, and remotes
	maxInputs      = 100 // arguments, variables, headers, choices of one list
	maxInputLevels = 3
)

var (
	namePattern    = lazyregexp.New(`^[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)*/[a-zA-Z0-9._-]+$`) // as trust has it
	npmPattern     = lazyregexp.New(`^(@[a-zA-Z0-9~][a-zA-Z0-9._~-]*/)?[a-zA-Z0-9~][a-zA-Z0-9._~-]*$`)
	pypiPattern    = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	ociPattern     = lazyregexp.New(`^[a-zA-Z0-9][a-zA-Z0-9.:_/@-]*$`)
	kindPattern    = lazyregexp.New(`^[a-z][a-z0-9-]{0,31}$`)
	versionPattern = lazyregexp.New(`^[0-9A-Za-z][0-9A-Za-z.+_!-]*$`)
	rangePattern   = lazyregexp.New(`(^|\.)[xX*]($|\.)`)
	sha256Pattern  = lazyregexp.New(`^[0-9a-f]{64}$`)
	envPattern     = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerPattern  = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	urlVariable    = lazyregexp.New(`\{[a-zA-Z_][a-zA-Z0-9_.-]*\}`)
)

// check refuses a server that has no usable name, and leaves out packages and
// remotes that nobody should start.
func (s *Server) check() error {
	if len(s.Name) > maxName || !namePattern().MatchString(s.Name) {
		return fmt.Errorf("%q is no name of a server", cleanText(s.Name, 60))
	}
	if err := checkVersion(s.Version); err != nil || s.Version == "" {
		return fmt.Errorf("%s has no exact version", s.Name)
	}
	s.clean()
	return nil
}

// clean does all of check that is not about name and version.
func (s *Server) clean() {
	s.Title, s.Description = cleanText(s.Title, maxName), cleanText(s.Description, maxText)
	if !isWebURL(s.WebsiteURL) {
		s.WebsiteURL = ""
	}
	if r := s.Repository; r != nil && !isWebURL(r.URL) {
		s.Repository = nil
	} else if r != nil {
		r.Source, r.ID, r.Subfolder = cleanText(r.Source, maxName), cleanText(r.ID, maxName), cleanText(r.Subfolder, maxName)
	}
	packages, remotes := s.Packages, s.Remotes
	s.Packages, s.Remotes = nil, nil
	for i := range packages {
		if i == maxPerServer {
			s.Dropped = append(s.Dropped, fmt.Sprintf("packages after the first %d", maxPerServer))
			break
		}
		p := &packages[i]
		if err := p.check(); err != nil {
			s.Dropped = append(s.Dropped, fmt.Sprintf("package %q: %v", cleanText(p.Identifier, 80), err))
			continue
		}
		s.Packages = append(s.Packages, *p)
	}
	for i := range remotes {
		if i == maxPerServer {
			s.Dropped = append(s.Dropped, fmt.Sprintf("remotes after the first %d", maxPerServer))
			break
		}
		r := &remotes[i]
		err := r.check()
		if err == nil && r.Type == "stdio" {
			err = errors.New("stdio is not for remotes")
		}
		if err != nil {
			s.Dropped = append(s.Dropped, fmt.Sprintf("remote %q: %v", cleanText(r.URL, 80), err))
			continue
		}
		s.Remotes = append(s.Remotes, *r)
	}
}

func (p *Package) check() error {
	if !kindPattern().MatchString(string(p.Kind)) {
		return errors.New("its registryType is none")
	}
	if err := checkIdentifier(p.Kind, p.Identifier); err != nil {
		return err
	}
	if err := checkVersion(p.Version); err != nil {
		return err
	}
	if p.SHA256 = strings.ToLower(p.SHA256); p.SHA256 != "" && !sha256Pattern().MatchString(p.SHA256) {
		return errors.New("its fileSha256 is none")
	}
	if p.Kind == MCPB && p.SHA256 == "" {
		return errors.New("a bundle needs its fileSha256")
	}
	if !isWebURL(p.BaseURL) {
		p.BaseURL = ""
	}
	if p.RuntimeHint = cleanText(p.RuntimeHint, maxName); strings.ContainsAny(p.RuntimeHint, `/\ `) {
		return errors.New("its runtimeHint is a path or a command line")
	}
	if p.Transport.Type == "" {
		p.Transport.Type = "stdio"
	}
	if err := p.Transport.check(); err != nil {
		return err
	}
	for _, list := range [][]Argument{p.RuntimeArgs, p.PackageArgs} {
		if err := checkArguments(list); err != nil {
			return err
		}
	}
	return checkPairs(p.Environment, envPattern(), "an environment variable")
}

// checkIdentifier refuses what a package manager could take for something else
// than the name of a package: an option, a path, a URL, a second word.
func checkIdentifier(kind Kind, id string) error {
	switch {
	case id == "":
		return errors.New("it has no identifier")
	case len(id) > maxIdentifier:
		return errors.New("its identifier is too long")
	case strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f || !unicode.IsGraphic(r) || unicode.IsSpace(r) }):
		return errors.New("its identifier has characters that nobody sees")
	case strings.HasPrefix(id, "-"):
		return errors.New("its identifier is an option")
	}
	for part := range strings.FieldsFuncSeq(id, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == "." || part == ".." {
			return errors.New("its identifier is a path")
		}
	}
	const maxPackageName = 214 // as npm has it
	ok := true
	switch kind {
	case NPM:
		ok = len(id) <= maxPackageName && npmPattern().MatchString(id)
	case PyPI:
		ok = len(id) <= maxPackageName && pypiPattern().MatchString(id)
	case OCI:
		ok = ociPattern().MatchString(id) && !strings.Contains(id, "//")
	case MCPB:
		u, err := url.Parse(id)
		ok = err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil
	default: // of kinds that nobody starts, what was checked is enough
	}
	if !ok {
		return fmt.Errorf("its identifier is none of %s", kind)
	}
	return nil
}

// CheckPackage says why no package manager should be given that identifier and
// that version, which may be "".
func CheckPackage(kind Kind, identifier, version string) error {
	if err := checkIdentifier(kind, identifier); err != nil {
		return err
	}
	return checkVersion(version)
}

var (
	npmVersion    = lazyregexp.New(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	digitsVersion = lazyregexp.New(`^[0-9][0-9A-Za-z.+!_-]*$`)
)

// ExactVersion says why what somebody wrote is no exact version of a package of
// that kind, and what to write instead; nil: it is one.
func ExactVersion(kind Kind, name, version string) error {
	pattern, like := digitsVersion(), "1.2.3"
	if kind == NPM {
		pattern = npmVersion()
	}
	if checkVersion(version) == nil && pattern.MatchString(version) {
		return nil
	}
	by := "@"
	if kind == PyPI {
		by = "=="
	}
	return &Error{
		Reason:  Invalid,
		Message: fmt.Sprintf("%q is no exact version of %s: tags and ranges mean another one tomorrow", cleanText(version, 40), cleanText(name, 80)),
		Hint:    fmt.Sprintf("Name a version exactly, as in %s, or leave it out for the newest.", cleanText(name, 80)+by+like),
	}
}

// checkVersion wants an exact version, or none.
func checkVersion(v string) error {
	switch {
	case v == "":
		return nil
	case len(v) > maxVersion, !versionPattern().MatchString(v), rangePattern().MatchString(v), strings.EqualFold(v, "latest"):
		return fmt.Errorf("%q is no exact version", cleanText(v, 40))
	}
	return nil
}

func (t *Transport) check() error {
	switch t.Type {
	case "stdio":
		t.URL, t.Headers = "", nil
		return nil
	case "streamable-http", "sse":
	default:
		return fmt.Errorf("its transport %q is not known", cleanText(t.Type, 40))
	}
	if len(t.URL) > maxIdentifier {
		return errors.New("its URL is too long")
	}
	// A variable may stand for anything, the scheme included.
	plain := urlVariable().ReplaceAllString(t.URL, "1") // also in the place of a port
	if plain != t.URL && strings.HasPrefix(t.URL, "{") {
		plain = "https://" + plain
	}
	if !isWebURL(plain) || plain == "" {
		return errors.New("it has no http or https URL")
	}
	if len(t.Variables) > maxInputs {
		return errors.New("it has too many variables")
	}
	if err := checkVariables(t.Variables, maxInputLevels); err != nil {
		return err
	}
	return checkPairs(t.Headers, headerPattern(), "a header")
}

func checkArguments(list []Argument) error {
	if len(list) > maxInputs {
		return errors.New("it has too many arguments")
	}
	for i := range list {
		a := &list[i]
		switch {
		case a.Type != "named" && a.Type != "positional":
			return fmt.Errorf("an argument is neither named nor positional but %q", cleanText(a.Type, 40))
		case a.Type == "named" && a.Name == "":
			return errors.New("a named argument has no name")
		case len(a.Name) > maxName || strings.ContainsFunc(a.Name, HiddenAlone):
			return errors.New("the name of an argument is too long, or has characters that nobody sees")
		case strings.ContainsFunc(a.Name, unusual):
			return fmt.Errorf("%q is no name of an argument", cleanText(a.Name, 40))
		}
		a.ValueHint = plainHint(a.ValueHint)
		if err := a.check(maxInputLevels); err != nil {
			return err
		}
	}
	return nil
}

// unusual says whether a character has no place in the name of an argument: letters,
// digits and what command lines are described with have, as in "--mount", "<dir>" and
// "host:port", and what means something to a shell has not. Names stand in commands that
// somebody is to type.
func unusual(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune(" -._/:=,@+%<>[]{}", r)
}

// plainHint is a hint in the place of a name. Since it is only a hint, what has no place
// there is left out, and the package stays; a "=" would end the name.
func plainHint(hint string) string {
	plain := cleanText(strings.Map(func(r rune) rune {
		if r == '=' || unusual(r) && !HiddenAlone(r) {
			return ' '
		}
		return r
	}, hint), maxName)
	plain = strings.TrimRight(strings.TrimSuffix(plain, "…"), " ") // that it was cut
	if plain == "" && hint != "" {
		return "value" // it takes one
	}
	return plain
}

func checkPairs(list []KeyValue, pattern *regexp.Regexp, what string) error {
	if len(list) > maxInputs {
		return fmt.Errorf("%s too many: more than %d", what, maxInputs)
	}
	for i := range list {
		if len(list[i].Name) > maxName || !pattern.MatchString(list[i].Name) {
			return fmt.Errorf("%q is no name of %s", cleanText(list[i].Name, 40), what)
		}
		if err := list[i].check(maxInputLevels); err != nil {
			return err
		}
	}
	return nil
}

func checkVariables(list map[string]Input, levels int) error {
	for name, in := range list {
		if len(name) > maxName || strings.ContainsFunc(name, HiddenAlone) {
			return errors.New("the name of a variable is too long, or has characters that nobody sees")
		}
		if err := in.check(levels); err != nil {
			return err
		}
		list[name] = in
	}
	return nil
}

func (in *Input) check(levels int) error {
	switch {
	case levels == 0:
		return errors.New("its variables have variables that have variables")
	case len(in.Choices) > maxInputs, len(in.Variables) > maxInputs:
		return errors.New("it has too many choices or variables")
	}
	for _, value := range append([]string{in.Value, in.Default}, in.Choices...) {
		if len(value) > maxValue || strings.ContainsFunc(value, HiddenAlone) {
			return errors.New("a value is too long, or has characters that nobody sees")
		}
	}
	in.Description, in.Placeholder, in.Format = cleanText(in.Description, maxText), cleanText(in.Placeholder, maxName), cleanText(in.Format, 40)
	return checkVariables(in.Variables, levels-1)
}

// isWebURL accepts "" too.
func isWebURL(text string) bool {
	if text == "" {
		return true
	}
	if len(text) > maxIdentifier || strings.ContainsFunc(text, HiddenAlone) || strings.Contains(text, " ") {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil
}

// HiddenAlone says whether nobody sees a character, wherever it stands: what
// [messages.Hidden] tells of one that nothing stands before, so that joiners and
// variation selectors are always among them, and line feeds, tabs and private
// characters, whose look nobody agreed upon. Names and values need none of these.
func HiddenAlone(r rune) bool {
	return r == '\n' || r == '\t' || unicode.Is(unicode.Co, r) || messages.Hidden(r, 0)
}

// cleanText makes one line without hidden characters of at most so many
// characters.
func cleanText(text string, most int) string {
	const widest = 64 // bytes looked at for each character that is kept
	if len(text) > most*widest {
		text = text[:most*widest]
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case HiddenAlone(r):
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most-1]) + "…"
	}
	return text
}
