package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func init() {
	helpers["write-and-die"] = func(args []string) error {
		s, err := Open(args[0], Options{})
		if err != nil {
			return err
		}
		mustPut(panicker{}, s, "m", vectors(0, damageVectors/2, damageDim, "d"))
		mustClose(panicker{}, s) // makes a table
		if s, err = Open(args[0], Options{}); err != nil {
			return err
		}
		mustPut(panicker{}, s, "m", vectors(damageVectors/2, damageVectors, damageDim, "d"))
		mustPutListings(panicker{}, s, map[string][]byte{"a": damageListing("a"), "bb": damageListing("bb")})
		fmt.Println("written")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return errors.New("was not killed")
	}
	helpers["look"] = func(args []string) error {
		s, err := Open(args[0], Options{})
		if err != nil {
			return err
		}
		n := countTrue(present(panicker{}, s, "m", damageVectors, damageDim, "d"))
		for server, raw := range readListings(panicker{}, s) {
			if !bytes.Equal(raw, damageListing(server)) {
				return fmt.Errorf("the listing of %s is another", server)
			}
		}
		// It works again, and keeps what it is given.
		mustPut(panicker{}, s, "m", vectors(0, 50, damageDim, "d"))
		fmt.Printf("%d %v\n", n, s.Rebuilt() != "")
		return s.Close()
	}
}

const (
	damageVectors = 400
	damageDim     = 48
)

func damageListing(server string) []byte { return text(100<<10, uint64(len(server))) }

// TestDamage opens stores with files that were truncated, zeroed, flipped,
// deleted, or are not what they are called, in a process of its own for each,
// since badger may end the process. Each opens, never returns what was not put,
// and works; what it says is checked where data must have been given up.
func TestDamage(t *testing.T) {
	t.Parallel()
	template := filepath.Join(t.TempDir(), "killed")
	cmd := helper(t, "write-and-die", template)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	p := start(t, cmd)
	if l := p.line(t); l != "written" {
		t.Fatal(l)
	}
	p.kill()
	damages := map[string]func(name string) error{
		"empty":     func(name string) error { return os.Truncate(name, 0) },
		"few bytes": func(name string) error { return os.Truncate(name, 7) },
		"half": func(name string) error {
			info, err := os.Stat(name)
			return errors.Join(err, os.Truncate(name, info.Size()/2))
		},
		"short": func(name string) error {
			info, err := os.Stat(name)
			return errors.Join(err, os.Truncate(name, max(0, info.Size()-3)))
		},
		"longer": func(name string) error {
			f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
			return errors.Join(err, f.Close())
		},
		"zeroed":          func(name string) error { return overwrite(name, func(b []byte) { clear(b) }) },
		"ones":            func(name string) error { return overwrite(name, func(b []byte) { fill(b, 0xff) }) },
		"garbage":         func(name string) error { return overwrite(name, func(b []byte) { copy(b, text(len(b), 3)) }) },
		"flipped start":   func(name string) error { return overwrite(name, func(b []byte) { flip(b, 1) }) },
		"flipped header":  func(name string) error { return overwrite(name, func(b []byte) { flip(b, 23) }) },
		"flipped quarter": func(name string) error { return overwrite(name, func(b []byte) { flip(b, len(b)/4) }) },
		"flipped middle":  func(name string) error { return overwrite(name, func(b []byte) { flip(b, len(b)/2) }) },
		"flipped end":     func(name string) error { return overwrite(name, func(b []byte) { flip(b, len(b)-2) }) },
		"deleted":         os.Remove,
		"a folder":        func(name string) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
	}
	kinds := []string{"MANIFEST", "KEYREGISTRY", ".sst", ".mem", ".vlog", "DISCARD"}
	for _, kind := range kinds {
		for how, damage := range damages {
			if holdsData := kind == "MANIFEST" || kind == ".sst" || kind == ".mem"; !holdsData && strings.HasPrefix(how, "flipped") {
				continue // it is removed, or judged whole; the other kinds of damage say enough
			}
			t.Run(kind+"/"+how, func(t *testing.T) {
				t.Parallel() // most of the time goes into waiting for the disk
				path := filepath.Join(t.TempDir(), "catalog")
				copyTree(t, path, template)
				if err := damage(largest(t, dataOf(t, path), kind)); err != nil {
					t.Fatal(err)
				}
				n, rebuilt := look(t, path)
				switch kind {
				case "MANIFEST":
					// Behind its last record badger takes whatever comes for one
					// that was cut off.
					if tolerated := how == "longer" || how == "short"; !tolerated && !rebuilt {
						t.Errorf("nothing was noticed, %d vectors", n)
					}
				case ".sst":
					if !rebuilt {
						t.Errorf("a damaged table was trusted, %d vectors", n)
					}
				case ".mem":
					if rebuilt || n < damageVectors/2 {
						t.Errorf("%d vectors, rebuilt: %v; the table was sound", n, rebuilt)
					}
				default:
					if rebuilt || n != damageVectors {
						t.Errorf("%d vectors, rebuilt: %v; the file holds no data", n, rebuilt)
					}
				}
				if rebuilt && n != 0 {
					t.Errorf("rebuilt, and yet %d vectors", n)
				}
				// A second time there is nothing wrong any more.
				s := mustOpen(t, path, Options{})
				if n := countTrue(present(t, s, "m", 50, damageDim, "d")); n != 50 || s.Rebuilt() != "" {
					t.Errorf("at the second opening %d vectors, %s", n, s.Rebuilt())
				}
				mustClose(t, s)
			})
		}
	}
}

// TestDebris opens a store among files that badger does not expect.
func TestDebris(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	mustPut(t, s, "m", vectors(0, 100, damageDim, "d"))
	mustClose(t, s)
	data := dataOf(t, path)
	for _, name := range []string{"x.mem", "00009.mem", "99999999999999999999.mem", "-1.sst", "-00001.sst", "x.sst", "000999.sst",
		"x.vlog", "000009.vlog", "MANIFEST-REWRITE", "notes.txt", ".sst", ".mem"} {
		if err := os.WriteFile(filepath.Join(data, name), text(5000, 8), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"00011.mem", "000011.vlog", "000777.sst"} {
		if err := os.Mkdir(filepath.Join(data, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n, rebuilt := look(t, path)
	if n != 100 || rebuilt {
		t.Errorf("%d vectors, rebuilt: %v", n, rebuilt)
	}
}

// TestDeathsWhileOpening gives a store up when opening it has ended the process
// again and again, and not before.
func TestDeathsWhileOpening(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	s := mustOpen(t, path, Options{})
	mustPut(t, s, "m", vectors(0, 10, 4, "d"))
	mustClose(t, s)
	for deaths, content := range []string{"", "1", "2"} {
		if err := os.WriteFile(filepath.Join(path, openingFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, path, Options{})
		if n := countTrue(present(t, s, "m", 10, 4, "d")); n != 10 || s.Rebuilt() != "" {
			t.Errorf("after %d deaths: %d vectors, %s", deaths, n, s.Rebuilt())
		}
		mustClose(t, s)
	}
	if err := os.WriteFile(filepath.Join(path, openingFile), []byte("3"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, path, Options{})
	if !strings.Contains(s.Rebuilt(), "ended the process") {
		t.Errorf("after three deaths: %q", s.Rebuilt())
	}
	mustClose(t, s)
	if _, err := os.Stat(filepath.Join(path, openingFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", openingFile, err)
	}
}

// look opens a store in a process of its own, and says how many vectors it has
// and whether it was rebuilt.
func look(t *testing.T, path string) (n int, rebuilt bool) {
	t.Helper()
	cmd := helper(t, "look", path)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the process that opened it: %v\n%.3000s", err, errs.String())
	}
	if _, err := fmt.Sscan(string(out), &n, &rebuilt); err != nil {
		t.Fatalf("it says %q", out)
	}
	return n, rebuilt
}

// largest returns the file of a kind that takes most room.
func largest(t *testing.T, data, kind string) string {
	t.Helper()
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	best, size := "", int64(-1)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if (e.Name() == kind || filepath.Ext(e.Name()) == kind) && info.Size() > size {
			best, size = e.Name(), info.Size()
		}
	}
	if best == "" {
		t.Fatalf("there is no %s in %v", kind, entries)
	}
	return filepath.Join(data, best)
}

func copyTree(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func overwrite(name string, change func([]byte)) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	change(data)
	return os.WriteFile(name, data, 0o600)
}

func flip(b []byte, at int) {
	if len(b) > 0 {
		b[min(max(at, 0), len(b)-1)] ^= 0x10
	}
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}
