package scrub

// Secret reports whether the value that stands under a name, such as that of a
// variable or of a member in JSON, is or holds what [New] would take for a
// secret.
func Secret(name, value string) bool {
	c := collector{}
	c.named(name, value)
	return len(c) > 0
}

// Named is Secret by the name alone: it does not look for what the value
// holds, and is fast.
func Named(name, value string) bool {
	c := collector{}
	c.byName(name, value)
	return len(c) > 0
}

// NameSays reports whether a name says by itself that what stands under it is a secret.
func NameSays(name string) bool { return Named(name, "some value") }
