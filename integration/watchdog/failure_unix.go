//go:build unix

package watchdog

// failure is an error with what it means. It stands in for fmt.Errorf: fmt
// would have this package initialised later.
type failure struct {
	what string
	err  error
}

func (f *failure) Error() string { return f.what + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// explain returns nil for nil.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	return &failure{what: what, err: err}
}
