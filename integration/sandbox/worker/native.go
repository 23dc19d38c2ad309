package worker

import (
	"errors"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
	"modernc.org/quickjs"
)

// native is the library below the engine's Go package. Calls of a script and
// their answers pass it directly: the package converts by reflection, and what
// it cannot hand over, such as the two functions of a promise, the bridge would
// have to keep, in JavaScript that is interpreted for each call.
type native struct {
	tls     *libc.TLS
	context uintptr
	runtime uintptr
	argv    uintptr // room for maxArgs values, for calls that are made from here
	file    uintptr // the name that errors of JSON texts have
	stack   uintptr // the name of a property
	held    []any   // Go functions that the library was given
}

const (
	valueSize = unsafe.Sizeof(*(*lib.TJSValue)(nil))
	maxArgs   = 5
)

// nativeFunc is a function as the library calls it, with the arguments at argv.
// It must not panic.
type nativeFunc func(argc int32, argv uintptr) lib.TJSValue

// newNative finds the library's engine in that of the Go package, which does
// not offer it. Should the package change its layout, no worker starts.
func newNative(vm *quickjs.VM) (*native, error) {
	errLayout := errors.New("the engine's package has another layout than the one that is known")
	state := reflect.ValueOf(vm).Elem().FieldByName("state")
	if !state.IsValid() {
		return nil, errLayout
	}
	context, runtime := state.FieldByName("cContext"), state.FieldByName("runtime")
	if context.Kind() != reflect.Uintptr || runtime.Kind() != reflect.Pointer || runtime.IsNil() {
		return nil, errLayout
	}
	handle, tls := runtime.Elem().FieldByName("cRuntime"), runtime.Elem().FieldByName("tls")
	if handle.Kind() != reflect.Uintptr || tls.Type() != reflect.TypeFor[*libc.TLS]() {
		return nil, errLayout
	}
	n := &native{tls: (*libc.TLS)(tls.UnsafePointer()), context: uintptr(context.Uint()), runtime: uintptr(handle.Uint())}
	n.argv = libc.Xmalloc(n.tls, libc.Tsize_t(maxArgs*valueSize))
	var err error
	if n.file, err = libc.CString("<input>"); err != nil {
		return nil, err
	}
	n.stack, err = libc.CString("stack")
	return n, err
}

// define makes a global function of f.
func (n *native) define(name string, f nativeFunc) error {
	call := func(_ *libc.TLS, _ uintptr, _ lib.TJSValue, argc int32, argv uintptr, _ int32, _ uintptr) lib.TJSValue {
		return f(argc, argv)
	}
	n.held = append(n.held, &call)
	// A Go function is given to the translated library as the pointer that its
	// func value is. It stays alive with n.
	fn := lib.XJS_NewCFunctionData(n.tls, n.context, *(*uintptr)(unsafe.Pointer(&call)), 0, 0, 0, 0) //nolint:gosec // see above
	text, err := libc.CString(name)
	if err != nil {
		return err
	}
	defer libc.Xfree(n.tls, text)
	global := lib.XJS_GetGlobalObject(n.tls, n.context)
	defer n.free(global)
	if lib.XJS_SetPropertyStr(n.tls, n.context, global, text, fn) < 0 {
		return errors.New("a global function cannot be set")
	}
	return nil
}

func (n *native) free(v lib.TJSValue) { lib.XFreeValue(n.tls, n.context, v) }

func (n *native) dup(v lib.TJSValue) lib.TJSValue { return lib.XDupValue(n.tls, n.context, v) }

// failed tells whether an exception is pending, as behind a call of the library
// that could not do its work.
func (n *native) failed() bool { return lib.XJS_HasException(n.tls, n.context) != 0 }

// drop takes the pending exception away.
func (n *native) drop() { n.free(lib.XJS_GetException(n.tls, n.context)) }

// at is what lies at p, in memory of the library, which Go does not move.
func at[T any](p uintptr) *T {
	return *(**T)(unsafe.Pointer(&p)) //nolint:gosec // see above
}

// list are n of them.
func list[T any](p uintptr, n int) []T {
	return unsafe.Slice(at[T](p), n) //nolint:gosec // as in at
}

// values are n values that lie at p.
func values(p uintptr, n int) []lib.TJSValue { return list[lib.TJSValue](p, n) }

// text is a value as a string; false: an exception is pending.
func (n *native) text(v lib.TJSValue) (string, bool) {
	size := int(unsafe.Sizeof(libc.Tsize_t(0)))
	length := n.tls.Alloc(size)
	defer n.tls.Free(size)
	p := lib.XJS_ToCStringLen2(n.tls, n.context, length, v, 0)
	if p == 0 {
		return "", false
	}
	defer lib.XJS_FreeCString(n.tls, n.context, p)
	return string(list[byte](p, int(*at[libc.Tsize_t](length)))), true
}

// number is a value as a number; false: an exception is pending.
func (n *native) number(v lib.TJSValue) (float64, bool) {
	const size = 8
	p := n.tls.Alloc(size)
	defer n.tls.Free(size)
	if lib.XJS_ToFloat64(n.tls, n.context, p, v) < 0 {
		return 0, false
	}
	return *at[float64](p), true
}

// string makes a string of a text, or an exception.
func (n *native) string(text []byte) lib.TJSValue {
	p := n.bytes(text)
	defer libc.Xfree(n.tls, p)
	return lib.XJS_NewStringLen(n.tls, n.context, p, libc.Tsize_t(len(text)))
}

// parse makes a value of a JSON text, or an exception.
func (n *native) parse(text []byte) lib.TJSValue {
	p := n.bytes(text)
	defer libc.Xfree(n.tls, p)
	return lib.XJS_ParseJSON(n.tls, n.context, p, libc.Tsize_t(len(text)), n.file)
}

// bytes copies a text to the library's memory, with the zero behind it that its
// parser looks for.
func (n *native) bytes(text []byte) uintptr {
	p := libc.Xmalloc(n.tls, libc.Tsize_t(len(text)+1))
	to := list[byte](p, len(text)+1)
	copy(to, text)
	to[len(text)] = 0
	return p
}

// call calls f with args, which it does not keep; false: it threw, and the
// exception is gone.
func (n *native) call(f lib.TJSValue, args ...lib.TJSValue) bool {
	copy(values(n.argv, maxArgs), args)
	r := lib.XJS_Call(n.tls, n.context, f, lib.XNewInt32(n.tls, n.context, 0), int32(len(args)), n.argv)
	if n.failed() {
		n.drop()
		return false
	}
	n.free(r)
	return true
}

// promise is a new promise with its functions, which the caller owns; false: an
// exception is pending.
func (n *native) promise() (promise, resolve, reject lib.TJSValue, ok bool) {
	const size = int(2 * valueSize)
	p := n.tls.Alloc(size)
	defer n.tls.Free(size)
	promise = lib.XJS_NewPromiseCapability(n.tls, n.context, p)
	if n.failed() {
		return promise, resolve, reject, false
	}
	both := values(p, 2)
	return promise, both[0], both[1], true
}
