package config

import (
	"maps"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "EMPTY": "", "LOOP": "${A}", "ProgramFiles(x86)": "p"}
	ex := &expander{lookup: func(name string) (string, bool) { v, ok := values[name]; return v, ok }}
	tests := []struct{ in, want, err string }{
		{"", "", ""},
		{"plain $A $ $$ {A}", "plain $A $ $$ {A}", ""},
		{"${A}", "1", ""},
		{"x${A}y${A}", "x1y1", ""},
		{"${env:A}", "1", ""},
		{"${EMPTY}", "", ""},
		{"${EMPTY:-d}", "d", ""},
		{"${NONE:-d}", "d", ""},
		{"${NONE:-}", "", ""},
		{"${env:NONE:-a:-b}", "a:-b", ""},
		{"${A:-d}", "1", ""},
		{"${LOOP}", "${A}", ""},
		{"$${A}", "${A}", ""},
		{"$${A} ${A}", "${A} 1", ""},
		{"${A}$${A}", "1${A}", ""},
		{"${ProgramFiles(x86)}", "p", ""},
		{"${NONE}", "", "NONE is not set"},
		{"${env:NONE}", "", "NONE is not set"},
		{"a${A", "", "no closing }"},
		{"${", "", "no closing }"},
		{"${}", "", "does not name a variable"},
		{"${1}", "", "does not name a variable"},
		{"${A B}", "", "does not name a variable"},
		{"${NONE:-${A}}", "", "another ${"},
		{"${workspaceFolder}", "", "by an editor only"},
		{"${workspaceFolder:root}", "", "by an editor only"},
		{"${input:token}", "", "by an editor only"},
		{"${userHome}", "", "by an editor only"},
	}
	for _, tt := range tests {
		got, err := ex.expand(tt.in)
		if (err != nil) != (tt.err != "") || got != tt.want {
			t.Errorf("%q: got %q, %v", tt.in, got, err)
		}
		if err != nil {
			contains(t, err.Error(), tt.err)
		}
	}
	if got, err := (*expander)(nil).expand("${A}"); got != "${A}" || err != nil {
		t.Errorf("without an expander: %q, %v", got, err)
	}
}

func TestNearest(t *testing.T) {
	tests := []struct{ name, want string }{
		{"comand", "command"}, {"comamnd", "command"}, {"COMMAND", "command"}, {"arg", "args"}, {"header", "headers"},
		{"maxInstance", "maxInstances"}, {"zzz", ""}, {"", ""}, {"transport", ""},
	}
	for _, tt := range tests {
		if got := nearest(tt.name, entryNames); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestExpansionIsBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	ex := &expander{lookup: func(string) (string, bool) { return long, true }}
	if got, err := ex.expand(strings.Repeat("${X}", 10)); err != nil || len(got) != 10*len(long) {
		t.Errorf("%d bytes, %v; want one million", len(got), err)
	}
	if _, err := ex.expand(strings.Repeat("${X}", 20_000)); err == nil {
		t.Error("a string of 2 GB is expanded")
	}
	var failed bool
	for range 20_000 {
		_, err := ex.expand("${X}")
		failed = failed || err != nil
	}
	if !failed {
		t.Error("20,000 strings of 100 kB are expanded")
	}
}

// TestFilled: whoever takes secrets out of texts has to know what variables
// brought, of broken entries as well.
func TestFilled(t *testing.T) {
	w := newWorld(t, "REALSEC=hunter-22", "OTHER=x", "UNSET=")
	cfg := w.load(`{"mcpServers": {
		"a": {"command": "x", "args": ["${REALSEC}"], "env": {"TOK": "${env:REALSEC}", "N": "${UNSET:-default}"}},
		"b": {"command": "x", "env": {"TOK": "${OTHER}"}, "timeoutMs": "no"},
		"c": {"command": "x"}
	}}`)
	for name, want := range map[string]map[string]string{"a": {"REALSEC": "hunter-22"}, "b": {"OTHER": "x"}, "c": nil} {
		if got := cfg.Server(name).Filled; !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
