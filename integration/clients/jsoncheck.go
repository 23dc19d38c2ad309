package clients

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/tailscale/hujson"
)

// sameJSON reports whether a value says what is to be written.
func sameJSON(v *hujson.Value, value any) bool {
	other, err := hujson.Parse([]byte(style{}.render(value, "")))
	return err == nil && sameValue(v, &other)
}

// sameValue compares two values without white space and comments. Members must
// have the same order.
func sameValue(a, b *hujson.Value) bool {
	switch one := a.Value.(type) {
	case *hujson.Object:
		two, ok := b.Value.(*hujson.Object)
		return ok && slices.EqualFunc(one.Members, two.Members, func(x, y hujson.ObjectMember) bool {
			return sameValue(&x.Name, &y.Name) && sameValue(&x.Value, &y.Value)
		})
	case *hujson.Array:
		two, ok := b.Value.(*hujson.Array)
		return ok && slices.EqualFunc(one.Elements, two.Elements, func(x, y hujson.Value) bool { return sameValue(&x, &y) })
	case hujson.Literal:
		two, ok := b.Value.(hujson.Literal)
		return ok && (bytes.Equal(one, two) || one.Kind() == '"' && two.Kind() == '"' && one.String() == two.String())
	}
	return false
}

// verify makes sure that out says what the file said before and what change
// does to it, and nothing else.
func (d *document) verify(out []byte, change func(root *hujson.Value) error) error {
	after, err := parseJSON(out)
	if err != nil {
		return fmt.Errorf("it cannot be changed safely: %w", err)
	}
	want := d.root.Clone()
	if err := change(&want); err != nil {
		return err
	}
	if !sameValue(&want, &after.root) {
		return errors.New("it cannot be changed safely; change it by hand")
	}
	return nil
}

// setTree is setJSON on the tree.
func setTree(root *hujson.Value, path []string, want object) error {
	v, depth, err := (&document{root: *root}).at(path)
	if err != nil {
		return err
	}
	if depth == len(path) {
		for _, m := range want {
			if err := setOne(v, m.name, m.value); err != nil {
				return err
			}
		}
		return nil
	}
	var value any = want
	for i := len(path) - 1; i > depth; i-- {
		value = object{{path[i], value}}
	}
	return setOne(v, path[depth], value)
}

func setOne(v *hujson.Value, name string, value any) error {
	parsed, err := hujson.Parse([]byte(style{}.render(value, "")))
	if err != nil {
		return err
	}
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return errors.New("not an object")
	}
	if m := find(v, name); m != nil {
		m.Value = parsed
		return nil
	}
	obj.Members = append(obj.Members, hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: parsed})
	return nil
}
