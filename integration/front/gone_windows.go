package front

import "os"

// readerGone does not know: a pipe tells at the next write.
func readerGone(*os.File) bool { return false }
