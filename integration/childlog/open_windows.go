package childlog

// openNonblock is nothing here: there are no pipes in folders.
const openNonblock = 0
