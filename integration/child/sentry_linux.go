package child

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A sentry waits until descriptors can be read, for any number of them on one
// goroutine: with a thousand children, one that waits for each of their ends is
// megabytes of stacks. The goroutine ends when nothing is waited for.
type sentry struct {
	mu      sync.Mutex
	waiting map[int]func() // by descriptor; nil: there is no goroutine
	poll    int            // an epoll descriptor, while there is one
	file    *os.File       // of poll
}

// await calls ready on a goroutine of its own once fd can be read. fd must stay open
// until then.
func (s *sentry) await(fd int, ready func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		if err := s.start(); err != nil {
			return err
		}
	}
	err := unix.EpollCtl(s.poll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
	if err == nil {
		s.waiting[fd] = ready
	}
	s.endIfDone()
	return err
}

// endIfDone ends the goroutine where it waits for nothing.
func (s *sentry) endIfDone() {
	if s.waiting != nil && len(s.waiting) == 0 {
		s.waiting = nil
		_ = s.file.Close()
	}
}

// forget takes an await back, and reports whether ready will not be called. fd is
// open still.
func (s *sentry) forget(fd int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[fd] == nil {
		return false
	}
	_ = unix.EpollCtl(s.poll, unix.EPOLL_CTL_DEL, fd, nil) // it is there
	delete(s.waiting, fd)
	s.endIfDone()
	return true
}

// start starts the goroutine. The runtime's poller waits for the descriptor of ours.
func (s *sentry) start() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "epoll")
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{}) // fails where the poller does not take it
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.poll, s.file, s.waiting = fd, f, map[int]func(){}
	go s.run(raw)
	return nil
}

func (s *sentry) run(raw syscall.RawConn) {
	var events [64]unix.EpollEvent
	for {
		var n int
		err := raw.Read(func(fd uintptr) bool {
			var err error
			for {
				n, err = unix.EpollWait(int(fd), events[:], 0)
				if !errors.Is(err, unix.EINTR) {
					return n != 0
				}
			}
		})
		if err != nil { // nothing is waited for any more
			return
		}
		s.tell(events[:max(n, 0)])
	}
}

// tell calls those whose descriptors can be read.
func (s *sentry) tell(events []unix.EpollEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range events {
		fd := int(events[i].Fd)
		_ = unix.EpollCtl(s.poll, unix.EPOLL_CTL_DEL, fd, nil) // it is there: its descriptor is open
		if ready := s.waiting[fd]; ready != nil {
			delete(s.waiting, fd)
			go ready()
		}
	}
	s.endIfDone()
}

// exited calls ended on a goroutine of its own once the process has ended, and
// returns true; false where that cannot be waited for so.
func (s *sentry) exited(proc *os.Process, ended func()) bool {
	fd, err := unix.PidfdOpen(proc.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false // before Linux 5.10
	}
	if err := s.await(fd, func() {
		_ = unix.Close(fd)
		ended()
	}); err != nil {
		_ = unix.Close(fd)
		return false
	}
	return true
}
