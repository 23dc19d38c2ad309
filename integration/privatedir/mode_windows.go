package privatedir

import "io/fs"

// othersWrite leaves it to the access list of the user's folder.
func othersWrite(fs.FileInfo) bool { return false }
