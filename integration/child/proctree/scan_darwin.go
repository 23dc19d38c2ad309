package proctree

import "golang.org/x/sys/unix"

// szomb is SZOMB of <sys/proc.h>.
const szomb = 5

// Scan lists all processes, without markers: darwin shows no environments.
func Scan(uint64) (Snapshot, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	snap := make(Snapshot, 0, len(list))
	for i := range list {
		if list[i].Proc.P_stat != szomb {
			snap = append(snap, fromKinfo(&list[i]))
		}
	}
	return snap, nil
}

// StartTime returns the start time of a running process; false where there is
// none or where it is a zombie.
func StartTime(pid int) (uint64, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || k.Proc.P_stat == szomb || int(k.Proc.P_pid) != pid {
		return 0, false
	}
	return fromKinfo(k).Start, true
}

// BootID tells boots apart: start times are absolute here, but the number of a group
// may be that of another one after each. "" where the kernel does not say.
func BootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// Namespace is "": there are no PID namespaces here.
func Namespace() string { return "" }

func fromKinfo(k *unix.KinfoProc) Process {
	start := k.Proc.P_starttime
	return Process{
		PID:   int(k.Proc.P_pid),
		PPID:  int(k.Eproc.Ppid),
		Group: int(k.Eproc.Pgid),
		// Sessions are kernel addresses here, of no use for comparing.
		Session: -1,
		Start:   uint64(start.Sec)*1e6 + uint64(start.Usec),
		Name:    unix.ByteSliceToString(k.Proc.P_comm[:]),
	}
}
