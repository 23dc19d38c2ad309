package regular

// nonblock is nothing here: there are no pipes in folders.
const nonblock = 0
