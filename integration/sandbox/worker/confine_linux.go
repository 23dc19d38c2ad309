package worker

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"syscall"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// confine gives up what this process will not need, for all its threads and for
// good. Each layer stands for itself: where the kernel lacks one, the status
// says so and the others hold.
func confine() sandbox.Status {
	s := sandbox.Status{Landlock: "on", Seccomp: "on", Rlimits: "on"}
	for _, l := range []struct {
		what int
		most uint64
	}{{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, 0}, {unix.RLIMIT_NOFILE, maxDescriptors}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_MEMLOCK, 0}} {
		if err := setLimit(l.what, l.most); err != nil {
			s.Rlimits = err.Error()
		}
	}
	if err := restrictFiles(&s); err != nil {
		s.Landlock = err.Error()
	}
	if err := filterCalls(); err != nil {
		s.Seccomp = err.Error()
	}
	return s
}

// restrictFiles leaves no path, no port and no other process to reach.
func restrictFiles(s *sandbox.Status) error {
	abi, err := landlocksys.LandlockGetABIVersion()
	if err != nil || abi < 1 {
		return errors.New("the kernel has no Landlock")
	}
	if err := landlock.V7.BestEffort().Restrict(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	s.Landlock = "on (ABI " + strconv.Itoa(abi) + ")"
	return nil
}

// filterCalls leaves the system calls that the Go runtime, pipes and the meter
// need: memory, threads, time and signals of this process, reading and writing.
func filterCalls() error {
	if !seccomp.Supported() {
		return errors.New("the kernel has no seccomp")
	}
	pid := uint64(syscall.Getpid())
	// What a descriptor is asked or told: not who gets a signal when it is ready, and
	// which one, since that goes to other processes too.
	fcntl := func(command uint64, more ...seccomp.Condition) seccomp.NameWithConditions {
		return seccomp.NameWithConditions{Name: "fcntl", Conditions: append(more, seccomp.Condition{Argument: 1, Operation: seccomp.Equal, Value: command})}
	}
	groups := []seccomp.SyscallGroup{
		{Action: seccomp.ActionAllow, Names: known([]string{
			"read", "write", "readv", "writev", "pread64", "close", "dup",
			"mmap", "munmap", "mprotect", "madvise", "mremap", "brk", "mincore", "membarrier",
			"futex", "set_robust_list", "get_robust_list", "rseq", "sched_yield", "sched_getaffinity", "gettid", "getpid", "set_tid_address",
			"nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time",
			"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "rt_sigtimedwait",
			"epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "poll", "ppoll",
			"timer_create", "timer_settime", "timer_delete", "setitimer",
			"getrandom", "getrusage", "uname", "exit", "exit_group", "fstat", "arch_prctl",
		})},
		// Threads, but no processes.
		{Action: seccomp.ActionAllow, NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "clone", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_THREAD}}},
			// Signals to this process only.
			{Name: "tgkill", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: pid}}},
			{Name: "kill", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: pid}}},
			fcntl(unix.F_GETFD), fcntl(unix.F_SETFD), fcntl(unix.F_GETFL), fcntl(unix.F_DUPFD), fcntl(unix.F_DUPFD_CLOEXEC),
			fcntl(unix.F_SETFL, seccomp.Condition{Argument: 2, Operation: seccomp.BitsNotSet, Value: unix.O_ASYNC}),
			// Limits of this process only.
			{Name: "prlimit64", Conditions: []seccomp.Condition{{Argument: 0, Operation: seccomp.Equal, Value: 0}}},
		}},
		// The C library's way to start a thread when it is there (the race
		// detector's builds): it takes "no such call" for an answer and uses clone.
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: known([]string{"clone3"})},
	}
	return seccomp.LoadFilter(seccomp.Filter{
		NoNewPrivs: true, Flag: seccomp.FilterFlagTSync,
		Policy: seccomp.Policy{DefaultAction: seccomp.ActionErrno, Syscalls: groups},
	})
}

// known leaves out the names that this processor's kernel does not have.
func known(names []string) []string {
	info, err := arch.GetInfo("")
	if err != nil {
		return names // loading the filter tells
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, ok := info.SyscallNames[name]
		return !ok
	})
}

// limitData bounds memory that was never touched as well, which the watch would
// not see, and what is taken faster than it looks. It is far above what the
// watch allows: the Go runtime ends without a word where it is met.
func limitData(m *meter, l sandbox.Limits) {
	const arena = 64 << 20 // the runtime takes memory in pieces of this size
	now := m.data()
	room := roomFor(l) + 8*arena*raceFactor
	if now > 0 && now < math.MaxInt64-room {
		_ = setLimit(unix.RLIMIT_DATA, uint64(now+room)) // the watch holds all the same
	}
	// Two cores' worth of the wall time, and then some.
	_ = setLimit(unix.RLIMIT_CPU, uint64(l.Wall.Seconds())*4+60)
}
