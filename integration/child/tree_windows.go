package child

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/messages"
)

// tree is a job object: it holds every descendant, and the system ends them
// all when its last handle is closed, also when this host dies.
type tree struct {
	mu  sync.Mutex
	job windows.Handle // 0 once abandoned
	pid uint32
}

// newTree makes the job. The process starts suspended, so that it can start
// nobody before it is in the job.
func newTree(attr *os.ProcAttr) (*tree, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("CreateJobObject: %w", err)
	}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return nil, fmt.Errorf("SetInformationJobObject: %w", err)
	}
	attr.Sys = &syscall.SysProcAttr{
		HideWindow:    true,
		CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_SUSPENDED,
	}
	return &tree{job: job}, nil
}

func (t *tree) adopt(proc *os.Process) error {
	t.pid = uint32(proc.Pid)
	var err error
	if herr := proc.WithHandle(func(h uintptr) {
		err = windows.AssignProcessToJobObject(t.job, windows.Handle(h))
	}); herr != nil {
		return herr
	}
	if err != nil {
		return fmt.Errorf("AssignProcessToJobObject: %w", err)
	}
	return resume(t.pid)
}

// resume starts the threads of a suspended process.
func resume(pid uint32) error {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return fmt.Errorf("CreateToolhelp32Snapshot: %w", err)
	}
	defer func() { _ = windows.CloseHandle(snap) }()
	entry := windows.ThreadEntry32{Size: uint32(unsafe.Sizeof(windows.ThreadEntry32{}))}
	for err = windows.Thread32First(snap, &entry); err == nil; err = windows.Thread32Next(snap, &entry) {
		if entry.OwnerProcessID != pid {
			continue
		}
		thread, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, entry.ThreadID)
		if err != nil {
			return fmt.Errorf("OpenThread: %w", err)
		}
		_, err = windows.ResumeThread(thread)
		_ = windows.CloseHandle(thread)
		if err != nil {
			return fmt.Errorf("ResumeThread: %w", err)
		}
	}
	return nil
}

// abandon closes the job, which ends whoever is left in it.
func (t *tree) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.job != 0 {
		_ = windows.CloseHandle(t.job)
		t.job = 0
	}
}

func (t *tree) wait(proc *os.Process) *os.ProcessState {
	state, err := proc.Wait()
	if err != nil {
		return nil
	}
	return state
}

func (t *tree) terminate() {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, t.pid)
}

func (t *tree) kill(*proctree.Scanner, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.job != 0 {
		_ = windows.TerminateJobObject(t.job, 1)
	}
}

func (t *tree) alive(*proctree.Scanner, string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.job == 0 {
		return false
	}
	var info basicAccounting
	err := windows.QueryInformationJobObject(t.job, basicAccountingClass,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	return err == nil && info.activeProcesses > 0
}

// basicAccounting is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type basicAccounting struct {
	_               [4]int64 // times
	_               uint32   // page faults
	_               uint32   // processes ever
	activeProcesses uint32
	_               uint32 // processes ended by a limit
}

const basicAccountingClass = 1 // JobObjectBasicAccountingInformation

// exitOf translates how a process ended; nil is unknown.
func exitOf(state *os.ProcessState) *messages.Exit {
	if state == nil {
		return &messages.Exit{Code: -1}
	}
	return &messages.Exit{Code: state.ExitCode()}
}
