package skills

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func skill(t *testing.T, folder, text string) string {
	t.Helper()
	path := filepath.Join(folder, fileName)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParse(t *testing.T) {
	deep := "---\nname: x\ndescription: " + strings.Repeat("[", 20000) + "\n---\n"
	for _, c := range []struct {
		name, text string
		want       string // name|description|requires, or the error after "error: "
	}{
		{"plain", "---\nname: a\ndescription: does it\n---\n# A", "a|does it|"},
		{"no name", "---\ndescription: does it\n---", "folder|does it|"},
		{"a list", "---\nname: a\ndescription: d\nrequires-mcp: [github, 'git lab', github]\n---\n", "a|d|github,git lab"},
		{"lines", "---\nname: a\ndescription: >\n  one\n  two\nrequires-mcp:\n  - github\n  - slack\n---\n", "a|one two|github,slack"},
		{"a word", "---\nname: a\ndescription: d\nrequires-mcp: github\n---\n", "a|d|github"},
		{"commas", "---\nname: a\ndescription: d\nrequires-mcp: github, slack,\n---\n", "a|d|github,slack"},
		{"in metadata", "---\nname: a\ndescription: d\nmetadata:\n  requires-mcp: github\n---\n", "a|d|github"},
		{"CRLF and BOM", "\xef\xbb\xbf---\r\nname: a\r\ndescription: d\r\n---\r\n", "a|d|"},
		{"null", "---\nname: a\ndescription: d\nrequires-mcp:\n---\n", "a|d|"},
		{"long", "---\nname: a\ndescription: " + strings.Repeat("é", 600) + "\n---\n", "a|" + strings.Repeat("é", 512) + "…|"},
		{"other keys", "---\nname: a\nallowed-tools: [x]\ndescription: d\n---\n", "a|d|"},
		{"empty", "", "error: it does not begin with front matter"},
		{"no front matter", "# A skill\n---\nname: a\n---\n", "error: it does not begin with front matter"},
		{"no end", "---\nname: a\ndescription: d\n", "error: its front matter has no end"},
		{"no description", "---\nname: a\n---\n", "error: it has no description"},
		{"empty description", "---\ndescription: ''\n---\n", "error: its description is empty"},
		{"not YAML", "---\nname: [a\n---\n", "error: its front matter is not YAML"},
		{"a tab", "---\nname:\n\t- a\n---\n", "error: its front matter is not YAML"},
		{"no mapping", "---\n- a\n---\n", "error: its front matter is no list of names and values"},
		{"nothing", "---\n---\n", "error: its front matter is no list of names and values"},
		{"an alias", "---\nx: &x a\nname: *x\ndescription: d\n---\n", "error: line 3: name is an alias"},
		{"a bomb", "---\na: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nname: a\ndescription: d\n---\n", "a|d|"},
		{"a name that is a list", "---\nname: [a]\ndescription: d\n---\n", "error: line 2: name is no text"},
		{"servers with a command", "---\nname: a\ndescription: d\nrequires-mcp:\n  - {command: x}\n---\n", "error: line 5: requires-mcp is no text"},
		{"too many servers", "---\nname: a\ndescription: d\nrequires-mcp: " + manyNames() + "\n---\n", "error: requires-mcp names more than 32"},
		{"a long name", "---\nname: " + strings.Repeat("n", 65) + "\ndescription: d\n---\n", "error: its name is empty or longer"},
		{"no UTF-8", "---\nname: a\ndescription: \xff\n---\n", "error: its front matter is not UTF-8"},
		{"deep", deep, "error: "},
	} {
		m, err := parse([]byte(c.text), "folder")
		if want, fails := strings.CutPrefix(c.want, "error: "); fails || err != nil {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		if got := m.name + "|" + m.description + "|" + strings.Join(m.requires, ","); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func manyNames() string {
	var names []string
	for i := range maxRequires + 1 {
		names = append(names, fmt.Sprint("s", i))
	}
	return strings.Join(names, ",")
}

func TestRead(t *testing.T) {
	home, cwd := t.TempDir(), t.TempDir()
	mine := skill(t, filepath.Join(cwd, ".claude", "skills", "review"), "---\nname: review\ndescription: of the project\nrequires-mcp: github\n---\n")
	skill(t, filepath.Join(home, ".claude", "skills", "review"), "---\nname: review\ndescription: of the user\n---\n")
	other := skill(t, filepath.Join(home, ".agents", "skills", "deploy"), "---\nname: deploy\ndescription: puts it there\n---\n")
	broken := skill(t, filepath.Join(home, ".metamcp", "skills", "broken"), "no front matter")
	huge := skill(t, filepath.Join(home, ".metamcp", "skills", "huge"), "---\nname: huge\n"+strings.Repeat("# much\n", maxMatter))
	if err := os.MkdirAll(filepath.Join(home, ".claude", "skills", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".claude", "skills", "README.md"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(cwd, ".agents", "skills", "folder", fileName)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	r := NewReader(Folders(home, cwd))
	skills, problems := r.Read(t.Context())
	want := []Skill{{"review", "of the project", mine, []string{"github"}}, {"deploy", "puts it there", other, nil}}
	if !reflect.DeepEqual(skills, want) {
		t.Errorf("%+v, want %+v", skills, want)
	}
	said := map[string]bool{}
	for _, p := range problems {
		said[p.Path] = true
	}
	if len(problems) != 3 || !said[broken] || !said[huge] || !said[folder] {
		t.Errorf("%v", problems)
	}

	// What changes is read again, and what is gone is not found any more.
	skill(t, filepath.Dir(broken), "---\nname: mended\ndescription: now it is one\n---\n")
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
	skills, problems = r.Read(t.Context())
	if len(skills) != 3 || skills[0].Name != "mended" || skills[1].Description != "of the user" || len(problems) != 2 {
		t.Errorf("%+v, %v", skills, problems)
	}
}

func TestFolders(t *testing.T) {
	if got := Folders("/h", "/h"); len(got) != 3 {
		t.Errorf("%q", got)
	}
	if got := Folders("", ""); got != nil {
		t.Errorf("%q", got)
	}
	if skills, problems := NewReader(Folders(t.TempDir(), "")).Read(t.Context()); skills != nil || problems != nil {
		t.Errorf("%v, %v", skills, problems)
	}
}

// Of very many folders so many are looked at, and it says so.
func TestManyFolders(t *testing.T) {
	dir := t.TempDir()
	for i := range maxFolders + 1 {
		skill(t, filepath.Join(dir, fmt.Sprint(i)), fmt.Sprintf("---\nname: s%d\ndescription: d\n---\n", i))
	}
	skills, problems := NewReader([]string{dir}).Read(t.Context())
	if len(skills) != maxFolders || len(problems) != 1 || !strings.Contains(problems[0].Message, "more than") {
		t.Errorf("%d, %v", len(skills), problems)
	}
}

// Who has no time gets what was known.
func TestReadInTime(t *testing.T) {
	dir := t.TempDir()
	skill(t, filepath.Join(dir, "a"), "---\nname: a\ndescription: d\n---\n")
	r := NewReader([]string{dir})
	if skills, _ := r.Read(t.Context()); len(skills) != 1 {
		t.Fatal(skills)
	}
	<-r.reading // somebody reads, and hangs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	skills, problems := r.Read(ctx)
	if len(skills) != 1 || len(problems) != 1 || !strings.Contains(problems[0].Message, "did not answer") {
		t.Errorf("%v, %v", skills, problems)
	}
	r.reading <- struct{}{}
	if skills, problems = r.Read(t.Context()); len(skills) != 1 || problems != nil {
		t.Errorf("%v, %v", skills, problems)
	}
}

// Folders that are slow are waited for as long as they get on, and those that hang for
// two seconds at most.
func TestSlowFoldersAreWaitedFor(t *testing.T) {
	for name, files := range map[string]int{"slow": 10, "hangs": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const step = 500 * time.Millisecond
				r := NewReader(nil)
				<-r.reading // somebody reads
				begun := time.Now()
				if files > 0 {
					go func() {
						for range files {
							<-time.After(step) // of the bubble's clock
							r.looked.Add(1)
						}
						r.reading <- struct{}{}
					}()
				}
				_, problems := r.Read(t.Context())
				took := time.Since(begun)
				if slow := problems == nil && took == time.Duration(files)*step; files > 0 && !slow {
					t.Errorf("%v after %s", problems, took)
				}
				if late := len(problems) == 1 && took <= 2*time.Second; files == 0 && !late {
					t.Errorf("%v after %s", problems, took)
				}
			})
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"---\nname: a\ndescription: d\nrequires-mcp: [a, b]\n---\n", "---\nx: &x a\nname: *x\n---", "---\n? [a]\n: b\n---\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parse(text, "folder")
		if err != nil {
			return
		}
		if m.name == "" || len(m.name) > maxName || m.description == "" || len(m.description) > maxDescription+len("…") || len(m.requires) > maxRequires {
			t.Errorf("%+v", m)
		}
	})
}
