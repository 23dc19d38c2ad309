package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// managerVars are what systemd gives a service of its own; they say nothing to what
// that starts.
var managerVars = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID", "SYSTEMD_EXEC_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "METAMCP_DELEGATED"}

// manager is who keeps this process running; "": nobody. Variables alone do not say
// so: whatever a service starts inherits them.
func manager() string {
	switch {
	case os.Getenv("SYSTEMD_EXEC_PID") != "":
		if os.Getenv("SYSTEMD_EXEC_PID") == strconv.Itoa(os.Getpid()) {
			return "systemd"
		}
	case os.Getenv("NOTIFY_SOCKET") != "" && os.Getenv("INVOCATION_ID") != "" && parentIs("systemd"):
		return "systemd" // one before version 248
	case os.Getenv("XPC_SERVICE_NAME") == launchdLabel && os.Getppid() == 1:
		return "launchd"
	}
	return ""
}

// parentIs tells whether the program that started this one has a name.
func parentIs(name string) bool {
	if runtime.GOOS != "linux" {
		return false
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(os.Getppid()), "comm"))
	return err == nil && strings.TrimSpace(string(text)) == name
}

// withoutManager is an environment without what is said to a service alone.
func withoutManager(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(managerVars, name)
	})
}
