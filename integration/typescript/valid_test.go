package typescript

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/metamcp/metamcp/integration/npmservers"
)

// program is a program whose types are a signature's, and that only names the
// tool: what a compiler leaves of it is that name.
func program(p parts) string {
	return p.aliases + "interface Tool {\n" + p.comment + "call" + p.params + ";\n}\nvoid " + p.path + ";\n"
}

// checked returns the signature of a tool after it looked at all that every
// signature promises.
func checked(t testing.TB, tool Tool) string {
	t.Helper()
	got := Signature(tool)
	if got == "" {
		return got
	}
	if again := Signature(tool); again != got {
		t.Errorf("two signatures of one tool:\n%s\n%s", got, again)
	}
	if len(got) > maxLength {
		t.Errorf("%d bytes:\n%s", len(got), got)
	}
	for _, r := range got {
		if r != ' ' && r != '\n' && !isSeen(r) {
			t.Errorf("holds %U, which nobody sees: %q", r, got)
		}
	}
	p, _ := sign(tool)
	lines := strings.Split(got, "\n")
	for i, line := range lines {
		call := strings.HasPrefix(line, p.path+p.params)
		if call != (i == len(lines)-1) || !call && !strings.HasPrefix(line, "type ") && !strings.HasPrefix(line, "/** ") {
			t.Errorf("line %d is nothing that belongs there:\n%s", i+1, got)
		}
	}
	res := api.Transform(program(p), api.TransformOptions{Loader: api.LoaderTS, Target: api.ESNext, MinifyWhitespace: true, Charset: api.CharsetUTF8})
	if len(res.Errors) > 0 {
		t.Fatalf("no TypeScript: %s\n%s", res.Errors[0].Text, got)
	}
	if code := strings.TrimSuffix(strings.TrimSpace(string(res.Code)), ";"); !strings.HasPrefix(code, "void servers") || strings.Count(code, ";") != strings.Count(p.path, ";") {
		t.Errorf("more than a type is left of it: %s\n%s", code, got)
	}
	return got
}

// randomSchema makes schemas in which all keywords meet, most of them rightly.
func randomSchema(r *rand.Rand, depth int) any {
	sub := func() any { return randomSchema(r, depth-1) }
	list := func() []any {
		out := make([]any, r.IntN(4))
		for i := range out {
			out[i] = sub()
		}
		return out
	}
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	text := func() string {
		return pick("a", "b", "name", "a-b", "", "*/", "/*", "//", "\n", "\"", "`${x}`", "'", "\\", "\u200b", "\u2028", "ä", "#", "new", "then", "x y. Z", "\x00", "😀")
	}
	if depth == 0 || r.IntN(12) == 0 {
		return []any{true, false, nil, 1, "x", map[string]any{}}[r.IntN(6)]
	}
	s := map[string]any{}
	for range 1 + r.IntN(4) {
		switch r.IntN(17) {
		case 0, 1:
			s["type"] = pick("string", "number", "integer", "boolean", "null", "object", "array", "file")
		case 2:
			s["type"] = []any{pick("string", "object", "array"), pick("null", "number", "object")}
		case 3, 4, 5:
			members := map[string]any{}
			for range r.IntN(5) {
				members[text()+pick("", "", "x", "y")] = sub()
			}
			s["properties"] = members
		case 6:
			s["required"] = []any{text(), "name", 1}
		case 7:
			s["additionalProperties"] = sub()
		case 8:
			s["items"] = sub()
			if r.IntN(3) == 0 {
				s["items"] = list()
			}
		case 9:
			s["prefixItems"], s["minItems"] = list(), r.IntN(3)
		case 10:
			s["enum"] = []any{text(), text(), 1.5, nil, true, []any{}, map[string]any{}}[r.IntN(6):]
		case 11:
			s[pick("anyOf", "oneOf", "allOf")] = list()
		case 12, 13:
			s["$ref"] = pick("#", "#/$defs/a", "#/$defs/b", "#/$defs/c~1*~1", "#/properties/name", "#/items", "#/anyOf/0", "x")
		case 14:
			s["description"], s["default"], s["format"], s["pattern"] = text()+" "+text(), text(), text(), text()
		case 15:
			s["nullable"] = true
		case 16:
			s["const"] = text()
		}
	}
	if r.IntN(3) == 0 {
		s["$defs"] = map[string]any{"a": sub(), "b": sub(), "c/*/": sub()}
	}
	return s
}

func randomTool(t testing.TB, seed uint64) Tool {
	r := rand.New(rand.NewPCG(seed, 1)) // the same tools every time
	document := func() json.RawMessage {
		s := randomSchema(r, 2+r.IntN(5))
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	return Tool{Server: "s", Name: "t", Description: "What it does.", Input: document(), Output: document()}
}

func TestRandomSchemas(t *testing.T) {
	for seed := range uint64(600) {
		if checked(t, randomTool(t, seed)) == "" {
			t.Errorf("seed %d: no signature", seed)
		}
	}
}

// The compiler of TypeScript itself has nothing against them, not even against
// what they mean.
func TestCompilerTakesThem(t *testing.T) {
	var file strings.Builder
	file.WriteString("declare const servers: any;\n")
	n := 0
	add := func(tool Tool) {
		if p, ok := sign(tool); ok {
			n++
			fmt.Fprintf(&file, "namespace N%d {\n%s}\n", n, program(p))
		}
	}
	for _, tt := range schemas {
		add(Tool{Server: "s", Name: "t", Description: tt.name, Input: json.RawMessage(tt.schema), Output: json.RawMessage(tt.schema)})
	}
	for _, tt := range named {
		add(Tool{Server: "s", Name: "t", Description: tt.name, Input: json.RawMessage(tt.in), Output: json.RawMessage(tt.out)})
	}
	for _, schema := range bombs() {
		add(Tool{Server: "my server", Name: "then", Input: json.RawMessage(schema)})
	}
	for seed := range uint64(1000) {
		add(randomTool(t, seed))
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "signatures.ts")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), npmservers.Node(t), npmservers.Compiler(t),
		"--noEmit", "--strict", "--target", "es2023", path)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v of %d signatures\n%.4000s", err, n, out)
	}
}

func FuzzSignature(f *testing.F) {
	for _, tt := range schemas {
		f.Add("s", "t", tt.name, tt.schema, tt.schema)
	}
	for _, tt := range named {
		f.Add("my server", "then", tt.name, tt.in, tt.out)
	}
	for seed := range uint64(50) {
		tool := randomTool(f, seed)
		f.Add(tool.Server, "a\"*/\n", "*/ x", string(tool.Input), string(tool.Output))
	}
	f.Fuzz(func(t *testing.T, server, tool, description, in, out string) {
		got := checked(t, Tool{Server: server, Name: tool, Description: description, Input: json.RawMessage(in), Output: json.RawMessage(out)})
		if got != "" && (in != "" && !json.Valid([]byte(in)) && len(in) <= maxSchema) {
			t.Errorf("a signature of what is no JSON: %q gives %s", in, got)
		}
	})
}
