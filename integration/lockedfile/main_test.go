package lockedfile_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/metamcp/metamcp/integration/lockedfile"
)

// asCounter makes the test binary a process that adds to the number in a file.
const asCounter = "LOCKEDFILE_TEST_COUNTER"

func TestMain(m *testing.M) {
	if path := os.Getenv(asCounter); path != "" {
		for range perWriter {
			if err := addOne(context.Background(), path); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// perWriter is how often each writer adds one.
const perWriter = 8

func counter(path string) *lockedfile.File {
	return &lockedfile.File{Path: path, What: "the numbers", Max: 1 << 20, Exposed: "count again"}
}

func addOne(ctx context.Context, path string) error {
	return counter(path).Change(ctx, func(text []byte) ([]byte, error) {
		n := 0
		if text != nil {
			var err error
			if n, err = strconv.Atoi(string(text)); err != nil {
				return nil, err
			}
		}
		return strconv.AppendInt(nil, int64(n)+1, 10), nil
	})
}
