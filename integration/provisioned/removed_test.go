package provisioned

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// keptServer installs a server with one file and keeps it.
func keptServer(t *testing.T, l *Lock, name string) Locked {
	t.Helper()
	claim, err := l.Claim(name + "-" + strings.ToLower(rand.Text())) // as installations have it
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(claim.Dir(), "index.js"), "x")
	tree, err := Record(t.Context(), claim.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(claim.Place(), claim.Release()); err != nil {
		t.Fatal(err)
	}
	kept, _, err := l.Keep(t.Context(), Locked{
		Name: name, Folder: claim.Folder(), Tree: tree.Hash, AllowedBy: APerson,
		Entry: Entry{
			Command: "node", Args: []string{filepath.Join(claim.Final(), "index.js")}, Env: map[string]string{"LIB": claim.Final()},
		},
		Source: Source{Kind: "npm", Package: name, Version: "1.0.0"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What a server wrote is named, goes with it, and comes back with it.
func TestSetAsideAndRestore(t *testing.T) {
	l := Open(t.TempDir())
	s := keptServer(t, l, "memory")
	if got, err := l.Differences(t.Context(), &s); err != nil || len(got) != 0 {
		t.Errorf("of what was just installed: %v, %v", got, err)
	}
	put(t, filepath.Join(l.Dir(&s), "memory.jsonl"), "remembered")
	put(t, filepath.Join(l.Dir(&s), "index.js"), "y")
	want := []Difference{{"index.js", "changed"}, {"memory.jsonl", "new"}}
	if got, err := l.Differences(t.Context(), &s); err != nil || !slices.Equal(got, want) {
		t.Errorf("written: %v, %v, want %v", got, err, want)
	}

	began := time.Now()
	gone, err := l.SetAside(t.Context(), "memory", began)
	if err != nil || gone.Name != "memory" || !gone.Began.Equal(began) {
		t.Fatalf("%+v, %v", gone, err)
	}
	if list, err := l.List(); err != nil || len(list) != 0 {
		t.Errorf("the file has %v, %v", list, err)
	}
	if _, err := os.Stat(l.Dir(&s)); err == nil {
		t.Error("its folder is where it was")
	}
	if text, err := os.ReadFile(filepath.Join(gone.Files(), "memory.jsonl")); err != nil || string(text) != "remembered" {
		t.Errorf("kept: %q, %v", text, err)
	}
	if _, err := l.SetAside(t.Context(), "memory", began); !errors.Is(err, ErrNotProvisioned) {
		t.Errorf("again: %v", err)
	}
	// A sweep takes what nobody needs, and this is needed.
	if _, err := l.Sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}

	all, err := l.Removed()
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	back, err := l.Restore(t.Context(), &all[0], func(name string) bool { return name == "memory" })
	if err != nil || back.Name != "memory-2" || back.Folder != s.Folder || back.Tree != s.Tree {
		t.Fatalf("%+v, %v", back, err)
	}
	if text, err := os.ReadFile(filepath.Join(l.Dir(&back), "memory.jsonl")); err != nil || string(text) != "remembered" {
		t.Errorf("back: %q, %v", text, err)
	}
	if all, err := l.Removed(); err != nil || len(all) != 0 {
		t.Errorf("still kept: %+v, %v", all, err)
	}
}

// While a server is put back, no sweep takes its files for those of nobody.
func TestRestoreBesideASweep(t *testing.T) {
	l := Open(t.TempDir())
	s := keptServer(t, l, "memory")
	long := time.Now().Add(-KeptFor / 2)
	if err := os.Chtimes(l.Dir(&s), long, long); err != nil {
		t.Fatal(err)
	}
	gone, err := l.SetAside(t.Context(), "memory", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sweeper, err := l.own(s.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Restore(t.Context(), &gone, nil); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("in the middle of a sweep: %v", err)
	}
	if err := sweeper.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Restore(t.Context(), &gone, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(l.Dir(&s)); err != nil || time.Since(info.ModTime()) > time.Minute {
		t.Errorf("it looks as if it had lain there for long: %v, %v", info.ModTime(), err)
	}
	if left, err := os.ReadDir(l.Servers()); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// The same server may be there again; then the old one stays kept.
func TestRestoreWhereItIsThereAgain(t *testing.T) {
	l := Open(t.TempDir())
	s := keptServer(t, l, "memory")
	put(t, filepath.Join(l.Dir(&s), "memory.jsonl"), "remembered")
	gone, err := l.SetAside(t.Context(), "memory", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keptServer(t, l, "memory")
	if _, err := l.Restore(t.Context(), &gone, nil); err == nil || !strings.Contains(err.Error(), gone.Dir()) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(gone.Files(), "memory.jsonl")); err != nil {
		t.Error(err)
	}
}

// Where the change cannot be written, everything is where it was.
func TestSetAsideOfABrokenFile(t *testing.T) {
	l := Open(t.TempDir())
	s := keptServer(t, l, "memory")
	put(t, l.Path(), "{")
	var broken *BrokenError
	if _, err := l.SetAside(t.Context(), "memory", time.Now()); !errors.As(err, &broken) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(l.Dir(&s), "index.js")); err != nil {
		t.Error(err)
	}
	if all, err := l.Removed(); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestRemovedAreBounded(t *testing.T) {
	l := Open(t.TempDir())
	for i := range KeptMost + 2 {
		name := fmt.Sprintf("server-%d", i)
		keptServer(t, l, name)
		if _, err := l.SetAside(t.Context(), name, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	all, err := l.Removed()
	if err != nil || len(all) != KeptMost || all[0].Name != fmt.Sprintf("server-%d", KeptMost+1) {
		t.Errorf("%d are kept, the newest is %s: %v", len(all), all[0].Name, err)
	}
	// What one command removes is kept whole, until another removes something.
	began := time.Now()
	for i := range KeptMost + 2 {
		name := fmt.Sprintf("together-%d", i)
		keptServer(t, l, name)
		if _, err := l.SetAside(t.Context(), name, began); err != nil {
			t.Fatal(err)
		}
	}
	all, err = l.Removed()
	if err != nil || len(all) != KeptMost+2 || all[len(all)-1].Name != "together-0" {
		t.Errorf("of what was removed together %d are kept, the oldest is %s: %v", len(all), all[len(all)-1].Name, err)
	}
	keptServer(t, l, "last")
	if _, err := l.SetAside(t.Context(), "last", time.Now()); err != nil {
		t.Fatal(err)
	}
	all, err = l.Removed()
	if err != nil || len(all) != KeptMost || all[0].Name != "last" {
		t.Errorf("%d are kept, the newest is %s: %v", len(all), all[0].Name, err)
	}
	// One that is too old goes with the next sweep.
	old := all[0]
	text, err := os.ReadFile(filepath.Join(old.Dir(), removedRecord))
	if err != nil {
		t.Fatal(err)
	}
	at := old.At.Format(time.RFC3339Nano)
	put(t, filepath.Join(old.Dir(), removedRecord), strings.Replace(string(text), at, old.At.Add(-KeptFor-time.Hour).Format(time.RFC3339Nano), 1))
	if _, err := l.Sweep(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old.Dir()); err == nil {
		t.Error("it is still kept")
	}
}

// What was removed before the clock went back is dated after now, and gives way to what
// is removed now.
func TestRemovedBeforeTheClockWentBack(t *testing.T) {
	l := Open(t.TempDir())
	for i := range KeptMost {
		name := fmt.Sprintf("old-%d", i)
		keptServer(t, l, name)
		gone, err := l.SetAside(t.Context(), name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		gone.At, gone.Began = gone.At.AddDate(1, 0, 0), gone.Began.AddDate(1, 0, 0)
		text, err := json.Marshal(&gone)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(gone.Dir(), removedRecord), string(text))
	}
	began := time.Now()
	for _, name := range []string{"weather", "mail"} {
		keptServer(t, l, name)
		gone, err := l.SetAside(t.Context(), name, began)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(gone.Files(), "index.js")); err != nil {
			t.Errorf("%s is not kept: %v", name, err)
		}
	}
	all, err := l.Removed()
	if err != nil || len(all) != KeptMost || all[0].Name != "mail" || all[1].Name != "weather" || all[2].Name != fmt.Sprintf("old-%d", KeptMost-1) {
		t.Errorf("%d are kept, the newest are %s, %s and %s: %v", len(all), all[0].Name, all[1].Name, all[2].Name, err)
	}
	// Nothing that this very command has removed goes, also where the clock jumps during it.
	jumped := all[0]
	jumped.At, jumped.Began = time.Now().Add(time.Hour), began.Add(time.Hour)
	text, err := json.Marshal(&jumped)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.stateDir, removedDir, "jumped")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, removedRecord), string(text))
	if err := l.forgetOld(jumped.Began); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("one of the same command is gone: %v", err)
	}
	if err := l.forgetOld(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it is kept as more than the last ones")
	}
}
