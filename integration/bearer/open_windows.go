package bearer

import "io/fs"

// readableByOthers leaves it to the access list of the user's folder.
func readableByOthers(fs.FileInfo) string { return "" }
