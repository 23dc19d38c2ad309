package demoserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Record is one line of the calls file and of the cancels file.
type Record struct {
	PID  int             `json:"pid"`
	Name string          `json:"name"` // the server's
	ID   json.RawMessage `json:"id"`   // the request's
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"`
}

// ReadRecords returns the lines of a calls or cancels file, oldest first. A
// file that does not exist yet has none. A last line that is still being
// written is left out.
func ReadRecords(path string) ([]Record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the demo server's records: %w", err)
	}
	var records []Record
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("read the demo server's records: line %d of %s: %w", len(records)+1, path, err)
		}
		records = append(records, r)
	}
	return records, nil
}

// appendLine adds one line in a single write, so that the lines of several
// processes never mix.
func appendLine(path string, line []byte) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("demo-server: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
