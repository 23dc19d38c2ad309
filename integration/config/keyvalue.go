package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Set writes the value that text stands for into s. Text is what a flag or
// variable holds. The error says what the key takes, and leaves s unchanged;
// it does not name the key, since the caller knows the flag or variable.
func (k *Key) Set(s *Settings, text string) error {
	switch k.Type {
	case TypeInt:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return k.refuse(text)
		}
		return k.setNumber(s, n, text)
	case TypeMillis:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			d, err := time.ParseDuration(text)
			if err != nil {
				return k.refuse(text)
			}
			n = d.Milliseconds()
			if n == 0 && d != 0 {
				return fmt.Errorf("%q is less than a millisecond; expected %s", text, k.Range())
			}
		}
		return k.setNumber(s, n, text)
	case TypeBool:
		v, ok := ParseBool(text)
		if !ok {
			return k.refuse(text)
		}
		*k.ref(s).(*bool) = v
	case TypeTrace:
		if v, ok := ParseBool(text); ok {
			text = ""
			if v {
				text = "stderr"
			}
		}
		return k.setString(s, text)
	case TypeList:
		list, err := listFromText(text)
		if err != nil {
			return err
		}
		for _, item := range list {
			if err := k.member(item); err != nil {
				return err
			}
		}
		*k.ref(s).(*[]string) = list
	case TypeRules:
		rules, err := rulesFromText(text)
		if err != nil {
			return err
		}
		*k.ref(s).(*[]ToolRule) = rules
	default:
		return k.setString(s, text)
	}
	return nil
}

// setNumber checks the range of an integer or of milliseconds.
func (k *Key) setNumber(s *Settings, n int64, shown string) error {
	if n < k.Min || n > k.Max {
		return k.refuse(shown)
	}
	if k.Type == TypeMillis {
		*k.ref(s).(*time.Duration) = time.Duration(n) * time.Millisecond
	} else {
		*k.ref(s).(*int) = int(n)
	}
	return nil
}

// setString checks a string by the key's type.
func (k *Key) setString(s *Settings, text string) error {
	switch {
	case strings.ContainsRune(text, 0):
		return errors.New("it holds a NUL byte")
	case k.Type == TypeEnum && !slices.Contains(k.Enum, text):
		return k.refuse(text)
	case k.Type == TypeURL && text != "" && urlProblem(text) != "":
		return errors.New("expected " + k.Range() + ", but " + urlProblem(text))
	case k.check != nil && text != "":
		if err := k.check(text); err != nil {
			return err
		}
	}
	*k.ref(s).(*string) = text
	return nil
}

// member says what is wrong with one member of a list.
func (k *Key) member(text string) error {
	switch {
	case k.Enum != nil && !slices.Contains(k.Enum, text):
		err := k.refuse(text)
		if hint := suggestion(text, k.Enum); hint != "" {
			err = fmt.Errorf("%w; %s", err, hint)
		}
		return err
	case k.check != nil:
		return k.check(text)
	}
	return nil
}

// refuse is the error for a text outside of what the key takes.
func (k *Key) refuse(text string) error {
	return fmt.Errorf("%s is not allowed; expected %s", quote(text), k.Range())
}

// ParseBool takes the spellings of a boolean that people use in flags and
// variables; ok is false for all else.
func ParseBool(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "true", "1", "yes", "on":
		return true, true
	case "false", "0", "no", "off":
		return false, true
	}
	return false, false
}

// isHTTPURL says whether text is an absolute URL that can be dialled.
func isHTTPURL(text string) bool { return urlProblem(text) == "" }

// urlProblem says why a text is no absolute http or https URL; "": it is one. The text may
// hold a password, so it is not repeated.
func urlProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "it is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return "it does not begin with http:// or https://"
	case u.Hostname() == "":
		return "it names no host"
	}
	return ""
}

// listFromText reads "a,b" or a JSON array of strings.
func listFromText(text string) ([]string, error) {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "[") {
		n, doc, err := parseText(trimmed)
		if err != nil {
			return nil, err
		}
		var r reader
		list := r.stringList(doc, "list", n, nil)
		return list, r.err()
	}
	var list []string
	for item := range strings.SplitSeq(trimmed, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list, nil
}

// rulesFromText reads a JSON array of tool rules.
func rulesFromText(text string) ([]ToolRule, error) {
	n, doc, err := parseText(text)
	if err != nil {
		return nil, err
	}
	var r reader
	rules := r.toolRules(doc, "toolRules", n)
	return rules, r.err()
}

// quote shows a value of the user in an error, bounded.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "…"
	}
	return strconv.Quote(text)
}

func equalStrings(a, b []string) bool { return slices.Equal(a, b) }

func equalRules(a, b []ToolRule) bool {
	return slices.EqualFunc(a, b, func(x, y ToolRule) bool {
		sameEnabled := (x.Enabled == nil) == (y.Enabled == nil) && (x.Enabled == nil || *x.Enabled == *y.Enabled)
		return sameEnabled && x.Server == y.Server && slices.Equal(x.Pattern, y.Pattern) && slices.Equal(x.Tags, y.Tags)
	})
}
