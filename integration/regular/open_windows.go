package regular

import "io/fs"

// nonblock is nothing here: there are no pipes in folders.
const nonblock = 0

// Others is nothing: modes say nothing here, and the access list of the user's
// folder guards what is in it.
func Others(fs.FileInfo) fs.FileMode { return 0 }
