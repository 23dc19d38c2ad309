//go:build unix

package stdio

import "syscall"

func take() (uintptr, error) {
	fd, err := syscall.Dup(1)
	if err != nil {
		return 0, err
	}
	syscall.CloseOnExec(fd)
	if err := dup2(2, 1); err != nil {
		return 0, err
	}
	return uintptr(fd), nil
}
