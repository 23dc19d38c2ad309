package stdio

import "syscall"

// take changes the handle that a C runtime will find when it is loaded
// together with llama.cpp.
func take() (uintptr, error) {
	kept := syscall.Stdout
	const stdOutput = ^uintptr(10) // STD_OUTPUT_HANDLE, that is -11
	set := syscall.NewLazyDLL("kernel32.dll").NewProc("SetStdHandle")
	if ok, _, err := set.Call(stdOutput, uintptr(syscall.Stderr)); ok == 0 {
		return 0, err
	}
	return uintptr(kept), nil
}
