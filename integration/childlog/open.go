package childlog

import (
	"os"

	"github.com/metamcp/metamcp/integration/regular"
)

// OpenAppend opens a file to append to, or makes it. It does not wait: a pipe
// that nobody reads is an error.
func OpenAppend(path string) (*os.File, error) { return regular.OpenNow(path, appending) }

const appending = os.O_WRONLY | os.O_CREATE | os.O_APPEND
