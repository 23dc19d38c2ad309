package clients

import (
	"strings"
	"testing"
)

var wanted = object{{"command", "/bin/m"}, {"args", []string{"--config", "<x>"}}}

func TestSetJSON(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"empty", "", "{\n  \"s\": {\n    \"m\": {\n      \"command\": \"/bin/m\",\n      \"args\": [\"--config\", \"<x>\"]\n    }\n  }\n}\n"},
		{"an empty object", "{}", "{\n  \"s\": {\n    \"m\": {\n      \"command\": \"/bin/m\",\n      \"args\": [\"--config\", \"<x>\"]\n    }\n  }\n}"},
		{"with a comment alone", "{ // none yet\n}\n", "{ // none yet\n  \"s\": {\n    \"m\": {\n      \"command\": \"/bin/m\",\n      \"args\": [\"--config\", \"<x>\"]\n    }\n  }\n}\n"},
		{"one line", `{"s":{"a":1}}`, `{"s":{"a":1, "m": {"command": "/bin/m", "args": ["--config", "<x>"]}}}`},
		{"one line, with a comment", `{"s":{"a":1 /* x */}}`, "{\"s\":{\"a\":1, /* x */\n  \"m\": {\n    \"command\": \"/bin/m\",\n    \"args\": [\"--config\", \"<x>\"]\n  }\n}}"},
		{"null", "{\n\t\"s\": null, // x\n\t\"b\": 1\n}", "{\n\t\"s\": {\n\t\t\"m\": {\n\t\t\t\"command\": \"/bin/m\",\n\t\t\t\"args\": [\"--config\", \"<x>\"]\n\t\t}\n\t}, // x\n\t\"b\": 1\n}"},
		{"CRLF, BOM, tabs, a comment behind", "\xef\xbb\xbf{\r\n\t\"s\": {\r\n\t\t\"a\": {} // last\r\n\t}\r\n}\r\n// end",
			"\xef\xbb\xbf{\r\n\t\"s\": {\r\n\t\t\"a\": {}, // last\r\n\t\t\"m\": {\r\n\t\t\t\"command\": \"/bin/m\",\r\n\t\t\t\"args\": [\"--config\", \"<x>\"]\r\n\t\t}\r\n\t}\r\n}\r\n// end"},
		{"trailing comma", "{\n  \"s\": {\n    \"a\": {}, // last\n  },\n}", "{\n  \"s\": {\n    \"a\": {}, // last\n    \"m\": {\n      \"command\": \"/bin/m\",\n      \"args\": [\"--config\", \"<x>\"]\n    },\n  },\n}"},
		{"twice, the last one counts", `{"s":{"a":1},"s":{}}`, `{"s":{"a":1},"s":{"m": {"command": "/bin/m", "args": ["--config", "<x>"]}}}`},
		{"there, with members of its own", "{\n  \"s\": {\"m\": {\"env\": {\"A\": \"b\"}, \"command\": \"old\" /* c */, \"args\": []}}\n}", "{\n  \"s\": {\"m\": {\"env\": {\"A\": \"b\"}, \"command\": \"/bin/m\" /* c */, \"args\": [\"--config\", \"<x>\"]}}\n}"},
		{"there, without arguments", "{\n  \"s\": {\n    \"m\": {\n      \"command\": \"/bin/m\"\n    }\n  }\n}", "{\n  \"s\": {\n    \"m\": {\n      \"command\": \"/bin/m\",\n      \"args\": [\"--config\", \"<x>\"]\n    }\n  }\n}"},
		{"an escaped name", `{"\u0073":{"a":1}}`, `{"\u0073":{"a":1, "m": {"command": "/bin/m", "args": ["--config", "<x>"]}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := setJSON([]byte(c.before), []string{"s"}, "m", wanted)
			if err != nil || string(got) != c.after {
				t.Fatalf("%v\n%q, want\n%q", err, got, c.after)
			}
			again, err := setJSON(got, []string{"s"}, "m", wanted)
			if err != nil || string(again) != c.after {
				t.Errorf("the second time: %v\n%q", err, again)
			}
		})
	}
}

func TestRemoveJSON(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"the only one", `{"s":{"m":{"x":1}}}`, `{"s":{}}`},
		{"the first", `{"s":{"m":1, "a":2}}`, `{"s":{"a":2}}`},
		{"the last", `{"s":{"a":2, "m":1}}`, `{"s":{"a":2}}`},
		{"in lines", "{\n  \"s\": {\n    \"a\": 1,\n    // of m\n    \"m\": {\n      \"x\": 1\n    },\n    \"b\": 2\n  }\n}", "{\n  \"s\": {\n    \"a\": 1,\n    // of m\n    \"b\": 2\n  }\n}"},
		{"last in lines", "{\r\n  \"s\": {\r\n    \"a\": 1, // keep\r\n    \"m\": 1\r\n  }\r\n}", "{\r\n  \"s\": {\r\n    \"a\": 1 // keep\r\n  }\r\n}"},
		{"last, trailing comma", "{\n  \"s\": {\n    \"a\": 1,\n    \"m\": 1, // of m\n  },\n}", "{\n  \"s\": {\n    \"a\": 1,\n    // of m\n  },\n}"},
		{"a comment before the comma", `{"s":{"m":1 /* x */, "a":2}}`, `{"s":{ /* x */ "a":2}}`},
		{"twice", `{"s":{"m":1, "a":2, "m":3}}`, `{"s":{"a":2}}`},
		{"not there", `{"s":{"a":2}}`, `{"s":{"a":2}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := removeJSON([]byte(c.before), []string{"s"}, []string{"m"})
			if err != nil || string(got) != c.after {
				t.Fatalf("%v\n%q, want\n%q", err, got, c.after)
			}
		})
	}
}

func TestSetTOML(t *testing.T) {
	block := "[s.m]\ncommand = \"/bin/m\"\nargs = [\"--config\", \"<x>\"]\n"
	for _, c := range []struct{ name, before, after string }{
		{"empty", "", block},
		{"without an end of line", "a = 1", "a = 1\n\n" + block},
		{"others", "# mine\n[s.a]\ncommand = 'x' # y\n", "# mine\n[s.a]\ncommand = 'x' # y\n\n" + block},
		{"CRLF and BOM", "\xef\xbb\xbfa = 1\r\n", "\xef\xbb\xbfa = 1\r\n\r\n" + strings.ReplaceAll(block, "\n", "\r\n")},
		{"there", "[s.m] # mine\n  command = \"old # x\" # c\nargs = [ # many\n 'a',\n]\nenv = {A = 'b'}\n[z]\ncommand = 1\n", "[s.m] # mine\n  command = \"/bin/m\" # c\nargs = [\"--config\", \"<x>\"]\nenv = {A = 'b'}\n[z]\ncommand = 1\n"},
		{"there, without arguments", "[s.m]\ncommand = '/bin/m'\n[s.m.env]\nA = 'b'", "[s.m]\nargs = [\"--config\", \"<x>\"]\ncommand = '/bin/m'\n[s.m.env]\nA = 'b'"},
		{"a header in a text", "x = \"\"\"\n[s.m]\n\"\"\"\n", "x = \"\"\"\n[s.m]\n\"\"\"\n\n" + block},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := setTOML([]byte(c.before), "s", "m", wanted)
			if err != nil || string(got) != c.after {
				t.Fatalf("%v\n%q, want\n%q", err, got, c.after)
			}
			again, err := setTOML(got, "s", "m", wanted)
			if err != nil || string(again) != c.after {
				t.Errorf("the second time: %v\n%q", err, again)
			}
		})
	}
	for _, before := range []string{"s = {a = {}}\n", "s = 1\n", "s.m = {command = 'x'}\n", "[[s]]\na = 1\n", "a = \n"} {
		if got, err := setTOML([]byte(before), "s", "m", wanted); err == nil {
			t.Errorf("%q became %q", before, got)
		}
	}
}

func TestRemoveTOML(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"with its tables", "a = 1\n\n[s.m]\ncommand = 'x'\n[s.m.env]\nA = 'b'\n\n# of b\n[s.b]\ncommand = 'y'\n", "a = 1\n\n# of b\n[s.b]\ncommand = 'y'\n"},
		{"in one line", "[s]\nm = {command = 'x'} # c\nb = {command = 'y'}\n", "[s]\nb = {command = 'y'}\n"},
		{"dotted", "s.m.command = 'x'\ns.b.command = 'y'\n", "s.b.command = 'y'\n"},
		{"text with a header in it", "[s.m]\nargs = [\"\"\"\n[s.b]\n\"\"\",\n'''\n[z]'''\n]\n[z]\na = 1", "[z]\na = 1"},
		{"the last", "[z]\r\na = 1\r\n\r\n[s.m]\r\ncommand = 'x'\r\n", "[z]\r\na = 1\r\n\r\n"},
		{"not there", "[z]\na = 1", "[z]\na = 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := removeTOML([]byte(c.before), "s", []string{"m"})
			if err != nil || string(got) != c.after {
				t.Fatalf("%v\n%q, want\n%q", err, got, c.after)
			}
		})
	}
	if got, err := removeTOML([]byte("s = {m = {command = 'x'}, b = {command = 'y'}}\n"), "s", []string{"m"}); err == nil {
		t.Errorf("a table in one line became %q", got)
	}
}

// What cannot be changed says where it is wrong, and nothing of what is there.
func TestUnreadable(t *testing.T) {
	const secret = "sk-secret"
	for _, c := range []struct{ text, want string }{
		{`{"a": "` + secret + `"`, "it is not JSON: it ends too early, in line 1"},
		{`[]`, "it is not an object: found an array"},
		{secret, "it is not JSON: line 1, column 1"},
		{"\xff\xfe{\x00}\x00", "UTF-16"},
		{`{"s": ["` + secret + `"]}`, `"s" is not an object: found an array`},
		{`{"s": {"m": "` + secret + `"}}`, `"s.m" is not an object: found a string`},
		{strings.Repeat(`{"a":`, 600), "deeper than 500"},
		{"// only a comment\n", "it is not JSON"},
	} {
		got, err := setJSON([]byte(c.text), []string{"s"}, "m", wanted)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%.40q became %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"a = '" + secret, "a = " + secret + "\n", "[x]\n[x]\n# " + secret} {
		_, err := setTOML([]byte(text), "s", "m", wanted)
		if err == nil || !strings.Contains(err.Error(), "not TOML: line") || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
