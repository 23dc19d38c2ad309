//go:build unix

package install

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/integration/trust"
)

// fakeNPM speaks the two commands of npm that are used, for a package "fake"
// with a program index.js.
const fakeNPM = `
case "$1" in
view)
	case "$2" in fake@latest|fake@1.2.3) ;; *) echo '{"error": {"code": "E404", "summary": "no such thing"}}'; exit 1;; esac
	echo '{"name": "fake", "version": "1.2.3", "dist.integrity": "sha512-right", "bin": {"fake": "index.js"}}' ;;
install)
	mkdir -p node_modules/fake
	echo '{"packages": {"node_modules/fake": {"version": "1.2.3", "integrity": "sha512-right"}, "node_modules/fake/node_modules/@x/native": {"hasInstallScript": true}}}' >package-lock.json
	echo '{"bin": {"fake": "index.js"}}' >node_modules/fake/package.json
	echo '// nothing' >node_modules/fake/index.js ;;
esac
`

func fakePackage() registry.Package {
	return registry.Package{Kind: registry.NPM, Identifier: "fake", Version: "1.2.3"}
}

// broken is fakeNPM with something else instead of one of its lines.
func broken(t *testing.T, line, instead string) map[string]string {
	t.Helper()
	if !strings.Contains(fakeNPM, line) {
		t.Fatalf("the fake npm has no line %q", line)
	}
	return map[string]string{"npm": strings.Replace(fakeNPM, line, instead, 1)}
}

func TestScriptsThatWereNotRunAreNamed(t *testing.T) {
	state := t.TempDir()
	done, err := planned(t, Options{StateDir: state, Environ: tools(t, map[string]string{"npm": fakeNPM})}, fakePackage()).Install(t.Context())
	must(t, err)
	if len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "@x/native;") {
		t.Errorf("the notes are %q", done.Notes)
	}
	must(t, done.Discard())
	must(t, done.Discard())
	nothingLeft(t, state)
}

// The version that is asked for is the one that is resolved, whatever the
// description says; one that is not there is refused with the newest.
func TestAVersionIsAskedFor(t *testing.T) {
	opts := Options{StateDir: t.TempDir(), Environ: tools(t, map[string]string{"npm": fakeNPM}), Version: "1.2.3"}
	old := fakePackage()
	old.Version = "1.0.0"
	if p := planned(t, opts, old); p.Source.Version != "1.2.3" {
		t.Errorf("planned: %+v", p.Source)
	}
	opts.Version = "9.9.9"
	_, err := resolve(t, opts, fakePackage())
	if e := reason(t, err, NotFound); e.Message != "there is no version 9.9.9 of fake; the newest is 1.2.3" || e.Hint == "" || e.Absent {
		t.Errorf("%v", e)
	}
	unknown := fakePackage()
	unknown.Identifier = "other"
	_, err = resolve(t, opts, unknown)
	if e := reason(t, err, NotFound); strings.Contains(e.Message, "newest") || !e.Absent {
		t.Errorf("of a package that is not there: %v", e)
	}
	image := registry.Package{Kind: registry.OCI, Identifier: "example.com/x:1.0"}
	_, err = resolve(t, opts, image)
	reason(t, err, NotSupported)
}

// A server that would keep its data beside its code gets a place outside of it,
// which is the same for all of its versions; a place that somebody chose stays.
func TestDataIsKeptOutsideOfTheInstallation(t *testing.T) {
	const memory = "@modelcontextprotocol/server-memory"
	npm := strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(fakeNPM, "fake@", memory+"@"), `"name": "fake"`, `"name": "`+memory+`"`), "node_modules/fake", "node_modules/"+memory)
	pkg := registry.Package{Kind: registry.NPM, Identifier: memory, Version: "1.2.3", Environment: []registry.KeyValue{{Name: "MEMORY_FILE_PATH"}}}
	state := t.TempDir()
	opts := Options{StateDir: state, Environ: tools(t, map[string]string{"npm": npm})}
	done, err := planned(t, opts, pkg).Install(t.Context())
	must(t, err)
	file := done.Entry.Env["MEMORY_FILE_PATH"]
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() || filepath.Dir(file) != provisioned.Open(state).DataDir(&done.Source) {
		t.Errorf("its data goes to %q: %v", file, err)
	}
	again, err := planned(t, opts, pkg).Install(t.Context())
	must(t, err)
	must(t, done.Discard())
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for data stays: %v", err)
	}
	// Another one of the same package is there with a folder all the same.
	kept, _, err := again.Keep(t.Context(), "", nil, provisioned.APerson, "")
	must(t, err)
	again.Release()
	done, err = planned(t, opts, pkg).Install(t.Context())
	must(t, err)
	must(t, done.Discard())
	if _, err := os.Stat(filepath.Dir(kept.Entry.Env["MEMORY_FILE_PATH"])); err != nil {
		t.Error(err)
	}
	opts.Values = map[string]string{"MEMORY_FILE_PATH": "/somewhere/memory.jsonl"}
	done, err = planned(t, opts, pkg).Install(t.Context())
	must(t, err)
	if got := done.Entry.Env["MEMORY_FILE_PATH"]; got != "/somewhere/memory.jsonl" {
		t.Errorf("a place that was chosen became %q", got)
	}
	must(t, done.Discard())
}

// A draft has the form of a plan's entry.
func TestDraftsLookLikePlans(t *testing.T) {
	s := described(fakePackage())
	c := trust.Candidates(s)[0]
	name, entry, ok := Draft(s, c, true)
	p := planned(t, Options{StateDir: t.TempDir(), Environ: tools(t, map[string]string{"npm": fakeNPM})}, fakePackage())
	if !ok || name != p.Name || !reflect.DeepEqual(entry, p.Entry) {
		t.Errorf("drafted %s %+v, planned %s %+v", name, entry, p.Name, p.Entry)
	}
	if _, _, ok := Draft(described(registry.Package{Kind: "nuget", Identifier: "x"}), trust.Candidate{Kind: "nuget", Package: "x"}, true); ok {
		t.Error("drafted what nobody starts")
	}
}

func TestWhatNPMSaysIsNotBelieved(t *testing.T) {
	const view = `"version": "1.2.3", "dist.integrity": "sha512-right", "bin": {"fake": "index.js"}}`
	for _, c := range []struct {
		name          string
		line, instead string
		reason        Reason
		says          string
	}{
		{"another package", `"name": "fake"`, `"name": "evil"`, BadIntegrity, "evil"},
		{"another version", `{"name": "fake", "version": "1.2.3"`, `{"name": "fake", "version": "6.6.6"`, BadIntegrity, "6.6.6"},
		{"no version", view, `}`, NotFound, "fake"},
		{"no JSON", `echo '{"name"`, `echo 'hello {"name"`, NotFound, "fake"},
		{"a failure without JSON", `case "$2" in`, "echo broken >&2; exit 7; case $2 in", Failed, "exit status 7): broken"},
		{"no program", `"bin": {"fake": "index.js"}}' ;;`, `"bin": {}}' ;;`, NoProgram, "no program"},
		{"several programs", `"bin": {"fake": "index.js"}}' ;;`, `"bin": {"one": "1.js", "two": "2.js"}}' ;;`, NoProgram, "one, two"},
		{"a program that is a number", `"bin": {"fake": "index.js"}}' ;;`, `"bin": 7}' ;;`, NoProgram, "neither a string nor an object"},
		{"another hash in the end", `"integrity": "sha512-right"},`, `"integrity": "sha512-wrong"},`, BadIntegrity, "sha512-wrong"},
		{"another version in the end", `{"version": "1.2.3", "integrity"`, `{"version": "1.2.4", "integrity"`, BadIntegrity, "1.2.4"},
		{"another package in the end", `"node_modules/fake": {"version"`, `"node_modules/evil": {"version"`, Failed, "does not name it"},
		{"no lock file", "echo '{\"packages\"", "true '{\"packages\"", Failed, "package-lock.json"},
		{"no package", `echo '{"bin": {"fake": "index.js"}}' >`, `true >/dev/null; rm -f `, NoProgram, "package.json"},
		{"a program that is not there", "echo '// nothing' >node_modules/fake/index.js", "true", NoProgram, "no such file"},
		{"a program outside", `echo '{"bin": {"fake": "index.js"}}' >`, `echo '{"bin": {"fake": "../../package.json"}}' >`, NoProgram, "outside"},
		{"a program that is a link outside", "echo '// nothing' >node_modules/fake/index.js", "ln -s /etc/passwd node_modules/fake/index.js", NoProgram, "link"},
		{"a full disk", "mkdir -p node_modules/fake", "echo 'npm error code ENOSPC' >&2; exit 228", DiskFull, "disk is full"},
		{"a failed installation", "mkdir -p node_modules/fake", "echo why >&2; exit 3", Failed, "why"},
		{"a pipe in it", "mkdir -p node_modules/fake", "mkdir -p node_modules/fake; mkfifo node_modules/pipe", Failed, "pipe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := t.TempDir()
			p, err := resolve(t, Options{StateDir: state, Environ: tools(t, broken(t, c.line, c.instead))}, fakePackage())
			if err == nil {
				_, err = p.Install(t.Context())
			}
			if e := reason(t, err, c.reason); !strings.Contains(e.Message, c.says) {
				t.Errorf("it says %q and not %q", e.Message, c.says)
			}
			nothingLeft(t, state)
		})
	}
}

// hanging is an npm that starts somebody who left the process group and waits
// for ever; it tells of both by files.
const hanging = `
echo $$ >"$TOOLS/npm.pid"
setsid sh -c 'echo $$ >"$TOOLS/far.tmp"; mv "$TOOLS/far.tmp" "$TOOLS/far.pid"; exec sleep 600' &
sh -c 'exec sleep 600'
`

func awaitFile(t *testing.T, file string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		_, err := os.Stat(file)
		return err
	})
}

// gone fails the test unless the processes of the hanging npm are. One that was
// ended before it could tell its number is.
func gone(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"npm.pid", "far.pid"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must(t, err)
		pid := strings.TrimSpace(string(text))
		testkit.Eventually(t, time.Minute, func() error {
			state, err := exec.CommandContext(t.Context(), "ps", "-o", "stat=", "-p", pid).Output()
			if err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z") {
				return errors.New("process " + pid + " of " + name + " lives: " + string(state))
			}
			return nil
		})
	}
}

func TestAnInstallationThatHangsIsEndedWithItsTree(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Fatal(err) // every Linux has it
	}
	scripts := broken(t, "mkdir -p node_modules/fake\n", hanging)
	t.Run("cancelled", func(t *testing.T) {
		state, env := t.TempDir(), tools(t, scripts)
		dir := lookup(env, "TOOLS")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := planned(t, Options{StateDir: state, Environ: env}, fakePackage())
		ended := make(chan error, 1)
		go func() {
			_, err := p.Install(ctx)
			ended <- err
		}()
		awaitFile(t, filepath.Join(dir, "far.pid"))
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it says %v", err)
		}
		gone(t, dir)
		nothingLeft(t, state)
	})
	t.Run("too slow", func(t *testing.T) {
		state, env := t.TempDir(), tools(t, scripts)
		dir := lookup(env, "TOOLS")
		_, err := planned(t, Options{StateDir: state, Environ: env, Timeout: 3 * time.Second}, fakePackage()).Install(t.Context())
		if e := reason(t, err, TimedOut); !strings.Contains(e.Message, "3s") {
			t.Errorf("it says %v", e)
		}
		gone(t, dir)
		nothingLeft(t, state)
	})
	t.Run("a question", func(t *testing.T) {
		env := tools(t, broken(t, `case "$2" in`, hanging+`case "$2" in`))
		dir := lookup(env, "TOOLS")
		_, err := resolve(t, Options{StateDir: t.TempDir(), Environ: env, QueryTimeout: 3 * time.Second}, fakePackage())
		reason(t, err, TimedOut)
		gone(t, dir)
	})
}

func TestWithoutNPM(t *testing.T) {
	p := planned(t, Options{StateDir: t.TempDir(), Environ: []string{"PATH=" + t.TempDir() + ":."}}, fakePackage())
	if p.Installable || mustJSON(t, p.Entry) != `{"command":"npx","args":["-y","fake@1.2.3"]}` {
		t.Errorf("the plan is %+v", p)
	}
	_, err := p.Install(t.Context())
	if e := reason(t, err, NoTool); !strings.Contains(e.Error(), "npm") || !strings.Contains(e.Error(), "Node.js") {
		t.Errorf("it says %v", e)
	}
}

// What npm is given does not come from an npm that started this process, nor
// from the project in which it stands.
func TestNPMGetsACleanPlace(t *testing.T) {
	state := t.TempDir()
	env := append(tools(t, broken(t, "case \"$1\" in\nview)", `env >"$TOOLS/env.$1"; pwd >"$TOOLS/pwd.$1"; case "$1" in
view)`)), "npm_config_local_prefix=/evil", "npm_package_name=evil", "npm_config_registry=https://mine.invalid", "INIT_CWD=/evil")
	dir := lookup(env, "TOOLS")
	done, err := planned(t, Options{StateDir: state, Environ: env}, fakePackage()).Install(t.Context())
	must(t, err)
	for _, step := range []string{"view", "install"} {
		text, err := os.ReadFile(filepath.Join(dir, "env."+step))
		must(t, err)
		if strings.Contains(string(text), "evil") || !strings.Contains(string(text), "https://mine.invalid") {
			t.Errorf("%s got\n%s", step, text)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "pwd.view")); err != nil || string(text) != "/\n" {
		t.Errorf("npm was asked in %q, %v", text, err)
	}
	must(t, done.Discard())
}

func TestADiskThatIsReallyFull(t *testing.T) {
	state := t.TempDir()
	if err := mountSmall(t, state); err != nil {
		t.Logf("no small disk can be made here (%v); the fake npm that says so is tested anyway", err)
		return
	}
	env := tools(t, broken(t, "mkdir -p node_modules/fake\n", "mkdir -p node_modules/fake; dd if=/dev/zero of=node_modules/large bs=65536 count=64\n"))
	_, err := planned(t, Options{StateDir: state, Environ: env}, fakePackage()).Install(t.Context())
	reason(t, err, DiskFull)
	nothingLeft(t, state)
}

// Whoever installs what somebody else has just kept waits until that can no longer be
// undone, and keeps its own where it was.
func TestKeepingWhatMayStillBeUndone(t *testing.T) {
	state := t.TempDir()
	l := provisioned.Open(state)
	opts := Options{StateDir: state, Environ: tools(t, map[string]string{"npm": fakeNPM})}
	var all [4]*Installed
	for i := range all {
		var err error
		all[i], err = planned(t, opts, fakePackage()).Install(t.Context())
		must(t, err)
	}
	first, second, third, fourth := all[0], all[1], all[2], all[3]
	kept, fresh, err := first.Keep(t.Context(), "", nil, provisioned.APerson, "")
	if err != nil || !fresh {
		t.Fatalf("the first: %v, %v", fresh, err)
	}
	hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if own, _, err := second.Keep(hasty, "", nil, provisioned.APerson, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second did not wait: %+v, %v", own, err)
	}
	must(t, second.Discard())

	waiting := make(chan *provisioned.Locked)
	go func() {
		own, fresh, err := third.Keep(t.Context(), "", nil, provisioned.APerson, "")
		if err != nil || !fresh {
			t.Errorf("the third: %v, %v", fresh, err)
		}
		waiting <- own
	}()
	_, err = l.Remove(t.Context(), kept.Name)
	must(t, err)
	first.Release()
	own := <-waiting
	must(t, l.Verify(t.Context(), own))
	third.Release()
	third.Release()
	// One that was released is the same for all.
	again, fresh, err := fourth.Keep(t.Context(), "", nil, provisioned.APerson, "")
	if err != nil || fresh || again.Folder != own.Folder {
		t.Errorf("the fourth: %+v, %v, %v", again, fresh, err)
	}
	folders, err := os.ReadDir(l.Servers())
	if err != nil || len(folders) != 1 || folders[0].Name() != own.Folder {
		t.Errorf("there are %v, %v", folders, err)
	}
}

// A broken lock file stops the keeping, and nothing of the rest is lost.
func TestKeepingIntoABrokenLockFile(t *testing.T) {
	state := t.TempDir()
	done, err := planned(t, Options{StateDir: state, Environ: tools(t, map[string]string{"npm": fakeNPM})}, fakePackage()).Install(t.Context())
	must(t, err)
	l := provisioned.Open(state)
	must(t, os.WriteFile(l.Path(), []byte("{"), 0o600))
	_, _, err = done.Keep(t.Context(), "", nil, provisioned.APerson, "")
	var brokenErr *provisioned.BrokenError
	if !errors.As(err, &brokenErr) {
		t.Errorf("it says %v", err)
	}
	must(t, done.Discard())
	if text, err := os.ReadFile(l.Path()); err != nil || string(text) != "{" {
		t.Errorf("the file is %q, %v", text, err)
	}
	must(t, os.Remove(l.Path()))
	must(t, os.Remove(l.Path()+".lock"))
	nothingLeft(t, state)
}
