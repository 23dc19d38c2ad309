package clients

import (
	"io/fs"
	"os"
)

// severalNames: hard links are rare on Windows, and not told by [os.Stat].
func severalNames(fs.FileInfo) bool { return false }

// keepOwner: a new file inherits its rights from its folder, as the old one.
func keepOwner(*os.File, fs.FileInfo) bool { return true }

func busy(error) bool { return false }
