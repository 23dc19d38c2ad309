package skills

// openNonblock is not needed: files are no pipes here.
const openNonblock = 0

// notFolder is always false: Windows says that such a path does not exist.
func notFolder(error) bool { return false }
