package relay

import (
	"io"
	"syscall"
	"unsafe"
)

// inputOver tells whether nobody can write to a pipe or a socket any more, also where what
// was written is not read. Of other inputs it does not know. It does without package unix:
// that is initialised after most others, which package early is not to wait for.
func inputOver(in io.Reader) bool {
	file, ok := in.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	over := false
	err = raw.Control(func(fd uintptr) {
		const (
			hangup  = 0x10   // POLLHUP: of a pipe, told without being asked for
			noWrite = 0x2000 // POLLRDHUP: of a socket, whose other direction may go on
		)
		set := struct {
			fd              int32
			events, revents int16
		}{fd: int32(fd), events: noWrite}
		var none syscall.Timespec // that it waits
		//nolint:gosec // the kernel reads and fills what lives until it is done
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&set)), 1, uintptr(unsafe.Pointer(&none)), 0, 0, 0)
		over = errno == 0 && n > 0 && set.revents&(hangup|noWrite) != 0
	})
	return err == nil && over
}
