package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/spelling"
)

// ownKeys are the members of a configuration that hold servers.
var ownKeys = []string{"mcpServers", "servers"}

// openOwn begins a change of metamcp's configuration.
func openOwn(file string) (*Change, *document, error) {
	c := &Change{Client: own.ID, Name: own.Name, File: file, client: own}
	var err error
	if c.found, err = readOwn(file); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	d, err := parseJSON(c.found.data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w; correct it by hand, nothing was changed", file, err)
	}
	return c, d, nil
}

// holding are the members of the root that hold a server of that name.
func (d *document) holding(name string) []string {
	return slices.DeleteFunc(slices.Clone(ownKeys), func(key string) bool {
		m := find(&d.root, key)
		return m == nil || find(&m.Value, name) == nil
	})
}

// names are all servers of the file.
func (d *document) names() []string {
	var list []string
	for _, key := range ownKeys {
		if m := find(&d.root, key); m != nil {
			for _, s := range members(&m.Value) {
				if name := nameOf(&s); !slices.Contains(list, name) {
					list = append(list, name)
				}
			}
		}
	}
	return list
}

// PlanAdd says how servers come into a configuration, which need not be there
// yet. One that is there with the same entry stays; one of that name with
// another entry is an error, as is a file that cannot be read. The secrets
// that the entries hold are not shown; a file that gets any is closed to others.
func (s *Setup) PlanAdd(file string, servers []*NewServer) (*Change, error) {
	c, d, err := openOwn(file)
	if err != nil {
		return nil, err
	}
	key := ownKeys[0]
	if find(&d.root, key) == nil && find(&d.root, ownKeys[1]) != nil {
		key = ownKeys[1]
	}
	var added object
	for _, n := range servers {
		if err := CheckServerName(n.Name); err != nil {
			return nil, err
		}
		if n.Command != "" && isMetamcp(n.Command, s.Executable) && Serves(n.Args) && len(configFiles(n.Args)) == 0 {
			return nil, errors.New("metamcp would start itself; give the one behind a configuration of its own with --config")
		}
		entry := n.entry()
		if in := d.holding(n.Name); len(in) > 0 {
			if m := find(&find(&d.root, in[0]).Value, n.Name); !sameJSON(&m.Value, entry) {
				return nil, &TakenError{Name: n.Name, File: file}
			}
			c.note("%s is there already", n.Name)
			continue
		}
		if added.get(n.Name) != nil {
			return nil, fmt.Errorf("two of the servers would be called %q; add one of them with --name", n.Name)
		}
		added = append(added, member{n.Name, entry})
		c.found.private = c.found.private || len(n.PlainSecrets()) > 0
	}
	if len(added) == 0 {
		c.Status = StatusPresent
		return c, nil
	}
	after, err := addJSON(c.found.data, []string{key}, added)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.propose(after, StatusAdd)
	if info := c.found.info; c.Pending() && c.found.private && info != nil && info.Mode().Perm()&0o077 != 0 && s.GOOS != "windows" {
		c.note("only you will be able to read the file, since it gets a secret")
	}
	return c, nil
}

// TakenError says that a server of that name is there and is another.
type TakenError struct{ Name, File string }

func (e *TakenError) Error() string {
	return fmt.Sprintf("%s has another server %q already", e.File, e.Name)
}

// NotThereError says that no file has a server of that name.
type NotThereError struct {
	Name  string
	Files []string
	Known []string // the servers that there are
}

// maxSpelled is the longest name that is compared by its spelling.
const maxSpelled = 64

func (e *NotThereError) Error() string {
	const most = 20
	where, known := "there is no configuration file yet", "none"
	if len(e.Files) > 0 {
		where = "not in " + strings.Join(e.Files, " or ")
	}
	switch list := e.Known; {
	case len(list) > most:
		known = fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	case len(list) > 0:
		known = strings.Join(list, ", ")
	}
	near, distance := "", 1+max(1, min(len(e.Name), maxSpelled)/4)
	for _, name := range e.Known {
		if len(name) <= maxSpelled && len(e.Name) <= maxSpelled {
			if d := spelling.Distance(e.Name, name); d < distance {
				near, distance = fmt.Sprintf("; did you mean %s?", name), d
			}
		}
	}
	return fmt.Sprintf("there is no server %q: %s; there are: %s%s", e.Name, where, known, near)
}

// PlanRemove says how servers go from the files, of which the last one counts
// most: each goes from the file whose entry is in force. A name that no file
// has is a *[NotThereError].
func (s *Setup) PlanRemove(files, names []string) ([]*Change, error) {
	return planEach(files, names, StatusRemove, func(raw []byte, d *document, name string) ([]byte, error) {
		out := raw
		for _, key := range d.holding(name) {
			var err error
			if out, err = removeJSON(out, []string{key}, []string{name}); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// PlanSwitch says how servers are turned off, or on again, by their member
// "disabled"; the files are as in [Setup.PlanRemove].
func (s *Setup) PlanSwitch(files, names []string, off bool) ([]*Change, error) {
	return planEach(files, names, StatusUpdate, func(raw []byte, d *document, name string) ([]byte, error) {
		out := raw
		for _, key := range d.holding(name) {
			path := []string{key, name}
			v, depth, err := d.at(path)
			if err != nil || depth < len(path) {
				return nil, fmt.Errorf("the entry of %q is not an object; correct it by hand", name)
			}
			switch m := find(v, "disabled"); {
			case off:
				out, err = setMember(out, path, "disabled", true)
			case m != nil && !sameJSON(&m.Value, false):
				out, err = removeJSON(out, path, []string{"disabled"})
			}
			if err != nil {
				return nil, err
			}
		}
		return out, verifySwitch(raw, out, name, off)
	})
}

// verifySwitch makes sure that nothing but "disabled" is another than before.
func verifySwitch(before, after []byte, name string, off bool) error {
	a, err := parseJSON(before)
	if err != nil {
		return err
	}
	b, err := parseJSON(after)
	if err != nil {
		return fmt.Errorf("it cannot be changed safely: %w", err)
	}
	for _, d := range []*document{a, b} {
		for _, key := range d.holding(name) {
			v, _, err := d.at([]string{key, name})
			if err != nil {
				return err
			}
			if m := find(v, "disabled"); d == b && (m != nil && sameJSON(&m.Value, true)) != off {
				return errors.New("it cannot be changed safely; change it by hand")
			}
			if obj, ok := v.Value.(*hujson.Object); ok {
				obj.Members = slices.DeleteFunc(obj.Members, func(m hujson.ObjectMember) bool { return nameOf(&m) == "disabled" })
			}
		}
	}
	if !sameValue(&a.root, &b.root) {
		return errors.New("it cannot be changed safely; change it by hand")
	}
	return nil
}

// planEach plans one change for each file that has some of the servers.
func planEach(files, names []string, status Status, edit func(raw []byte, d *document, name string) ([]byte, error)) ([]*Change, error) {
	var all []*Change
	left := slices.Compact(slices.Sorted(slices.Values(names)))
	var known []string
	for _, file := range slices.Backward(files) {
		c, d, err := openOwn(file)
		if err != nil {
			return nil, err
		}
		known = append(known, d.names()...)
		out := c.found.data
		var here []string
		for _, name := range left {
			if len(d.holding(name)) == 0 {
				continue
			}
			here = append(here, name)
			now, err := parseJSON(out)
			if err == nil {
				out, err = edit(out, now, name)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
		if len(here) == 0 {
			continue
		}
		left = slices.DeleteFunc(left, func(n string) bool { return slices.Contains(here, n) })
		if c.Status = StatusPresent; !bytes.Equal(out, c.found.data) {
			c.propose(out, status)
		}
		all = append(all, c)
	}
	if len(left) > 0 {
		slices.Sort(known)
		return nil, &NotThereError{Name: left[0], Files: files, Known: slices.Compact(known)}
	}
	return all, nil
}

// Exclusive runs do while no other metamcp changes its configuration, for which
// it waits ten seconds at most.
func (s *Setup) Exclusive(ctx context.Context, do func() error) (err error) {
	if err := os.MkdirAll(s.Backups, 0o700); err != nil {
		return fmt.Errorf("the folder of the backups cannot be made: %w", err)
	}
	unlock, err := lockedfile.Lock(ctx, filepath.Join(s.Backups, "edit.lock"), lockedfile.Patience)
	if err != nil {
		return fmt.Errorf("the configuration is being changed by another metamcp, nothing was written: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return do()
}
