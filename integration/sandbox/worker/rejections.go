package worker

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/libquickjs"
	"modernc.org/quickjs"
)

// maxRejections bounds how many rejected promises are remembered.
const maxRejections = 1000

// rejections are the promises that were rejected and that nobody has a handler
// for. The engine tells of them through a hook which its Go package does not
// offer, so it is set in the library below.
type rejections struct {
	vm      *quickjs.VM
	tls     *libc.TLS
	context uintptr
	reasons map[lib.TJSValue]lib.TJSValue // by promise; both are held
	order   []lib.TJSValue
	hook    func(*libc.TLS, uintptr, lib.TJSValue, lib.TJSValue, int32, uintptr)
}

func watchRejections(vm *quickjs.VM, n *native) *rejections {
	r := &rejections{vm: vm, tls: n.tls, context: n.context, reasons: make(map[lib.TJSValue]lib.TJSValue)}
	r.hook = r.told
	// As the functions of native.define.
	hook := *(*uintptr)(unsafe.Pointer(&r.hook)) //nolint:gosec // see above
	lib.XJS_SetHostPromiseRejectionTracker(n.tls, n.runtime, hook, 0)
	return r
}

// told is called when a promise is rejected without a handler, and again when
// it gets one.
func (r *rejections) told(tls *libc.TLS, context uintptr, promise, reason lib.TJSValue, handled int32, _ uintptr) {
	if handled != 0 {
		if held, ok := r.reasons[promise]; ok {
			delete(r.reasons, promise)
			lib.XFreeValue(tls, context, held)
			lib.XFreeValue(tls, context, promise)
		}
		return
	}
	if len(r.reasons) >= maxRejections {
		return
	}
	if _, ok := r.reasons[promise]; ok {
		return
	}
	promise, reason = lib.XDupValue(tls, context, promise), lib.XDupValue(tls, context, reason)
	r.reasons[promise] = reason
	r.order = append(r.order, promise)
	if len(r.order) > 2*maxRejections {
		kept := r.order[:0]
		for _, p := range r.order {
			if _, ok := r.reasons[p]; ok {
				kept = append(kept, p)
			}
		}
		r.order = kept
	}
}

func (r *rejections) count() int { return len(r.reasons) }

// first describes the reason of the oldest one as the bridge does, "" where
// there is none. The script must have ended.
func (r *rejections) first(e *engine) string {
	for _, promise := range r.order {
		if reason, ok := r.reasons[promise]; ok {
			return r.describe(e, reason)
		}
	}
	return ""
}

// describe hands a value of the library to the bridge, by way of a global.
func (r *rejections) describe(e *engine, reason lib.TJSValue) string {
	const name = "__metamcp_reason"
	global := lib.XJS_GetGlobalObject(r.tls, r.context)
	defer lib.XFreeValue(r.tls, r.context, global)
	text, err := libc.CString(name)
	if err != nil {
		return ""
	}
	defer libc.Xfree(r.tls, text)
	lib.XJS_SetPropertyStr(r.tls, r.context, global, text, lib.XDupValue(r.tls, r.context, reason))
	v, err := r.vm.EvalValue(name, quickjs.EvalGlobal)
	if err != nil {
		return ""
	}
	defer v.Free()
	d, err := e.bridge.Call(quickjs.UndefinedValue, "describe", v)
	if err != nil {
		return ""
	}
	said, _ := d.(string)
	return said
}
