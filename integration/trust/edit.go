package trust

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/lockedfile"
)

// Edit adds an entry to one of the lists of a trust file, or removes it;
// changed is false where nothing was to be done. Comments, order and everything
// else stay as they are. A missing file is made first; a broken one is left as
// it is, and the error says what is wrong with it. Two edits at once wait for
// each other.
func Edit(ctx context.Context, path string, which List, e Entry, remove bool) (changed bool, err error) {
	// A link stays a link: what it points to is replaced.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	unlock, err := lockedfile.Lock(ctx, path+".lock", lockedfile.Patience)
	if err != nil {
		return false, fmt.Errorf("the trust file was not changed: %w", err)
	}
	defer func() { err = errors.Join(err, unlock()) }()

	text, err := lockedfile.ReadTrusted(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte(newFile), nil
	}
	var d *document
	if err == nil {
		d, err = parse(text)
	}
	if err != nil {
		return false, fmt.Errorf("%s was left as it is: %w", path, err)
	}
	var next []byte
	if remove {
		next, err = d.removeAll(which, &e)
	} else {
		next = d.add(which, &e)
	}
	if err == nil && next != nil {
		err = d.verify(next, which, &e, remove)
	}
	switch {
	case err != nil:
		return false, fmt.Errorf("%s was left as it is: %w", path, err)
	case next == nil:
		return false, nil
	}
	return true, atomicfile.Write(path, next, 0o600)
}

// removeAll removes an entry however often it is there.
func (d *document) removeAll(which List, e *Entry) (text []byte, err error) {
	for {
		next := d.remove(which, e)
		if next == nil {
			return text, nil
		}
		text = next
		if d, err = parse(next); err != nil {
			return nil, fmt.Errorf("the change would break it: %w", err)
		}
	}
}

// verify holds the new text to what it should say, since a slip here would
// trust the wrong ones.
func (d *document) verify(text []byte, which List, e *Entry, remove bool) error {
	now, err := parse(text)
	if err != nil {
		return fmt.Errorf("the change would break it: %w", err)
	}
	for _, l := range []List{TrustedList, BlockedList} {
		want := keys(d.list(l).entries)
		switch {
		case l == which && remove:
			want = slices.DeleteFunc(want, func(key string) bool { return key == e.key() })
		case l == which:
			want = append(want, e.key())
		}
		if !slices.Equal(want, keys(now.list(l).entries)) {
			return errors.New("the change would alter other entries")
		}
	}
	if now.threshold != d.threshold {
		return errors.New("the change would alter the threshold")
	}
	return nil
}

func keys(entries []Entry) []string {
	list := make([]string, len(entries))
	for i := range entries {
		list[i] = entries[i].key()
	}
	return list
}
