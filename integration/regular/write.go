package regular

import (
	"errors"
	"os"
)

// Write replaces what is in a regular file, which is made with the mode 0600 where
// there is none. Where the text cannot be written, as on a full disk, the file is
// removed: what is in it is not what anybody meant. Errors are *fs.PathError, or
// several.
func Write(path string, text []byte) error {
	f, err := Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
