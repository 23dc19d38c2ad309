package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/diskspace"
	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/messages"
)

const (
	// littleSpace and noSpace are bytes that are free.
	littleSpace = 500 << 20
	noSpace     = 20 << 20
	// largeLogs is beyond what logs that turn over should take, in bytes.
	largeLogs = 2 << 30
	// maxEntries bounds the walk through the state folder.
	maxEntries = 20000
)

func (p *Patient) stateChecks() []Check {
	dir := p.Config.Settings.StateDir
	check := func(id string, run func(context.Context) []Result) Check {
		return Check{ID: id, Group: GroupState, Run: run}
	}
	if dir == "" {
		return []Check{check("state.folder", func(context.Context) []Result {
			return []Result{{
				Status: Warn, Found: "no state folder is known", Why: "Nothing is remembered between starts, and running hosts cannot be found.",
				Fix: "Name one with --state-dir, the variable METAMCP_STATE_DIR, or stateDir in the configuration.",
			}}
		})}
	}
	return []Check{
		check("state.folder", func(context.Context) []Result { return []Result{p.folder(dir)} }),
		check("state.modes", func(ctx context.Context) []Result {
			return []Result{p.modes(ctx, dir), p.hostsMode(filepath.Join(dir, "hosts"))}
		}),
		check("state.space", func(context.Context) []Result { return []Result{space(dir)} }),
		check("state.catalog", func(ctx context.Context) []Result { return []Result{p.catalog(ctx, filepath.Join(dir, "catalog"))} }),
		check("state.audit", func(ctx context.Context) []Result { return p.auditLog(ctx) }),
		check("state.secrets", func(context.Context) []Result { return p.secrets(dir) }),
		check("state.trust", p.trustFile),
		check("state.logs", func(ctx context.Context) []Result { return []Result{p.logs(ctx, dir)} }),
	}
}

// folder looks whether the state folder is there and can be written to.
func (p *Patient) folder(dir string) Result {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The first host makes it, if it may.
		parent := dir
		for errors.Is(err, fs.ErrNotExist) && filepath.Dir(parent) != parent {
			parent = filepath.Dir(parent)
			info, err = os.Stat(parent)
		}
		if err == nil && info.IsDir() && mayWrite(parent) {
			return Result{Status: OK, Found: dir + " is not there yet; the first start makes it"}
		}
		return Result{Status: Fail, Found: fmt.Sprintf("%s is not there, and %s cannot be written to", dir, parent), Why: unwritable, Fix: "mkdir -p -m 700 " + messages.ShellWord(dir)}
	case err != nil:
		return Result{Status: Fail, Found: fmt.Sprintf("%s cannot be looked at: %v", dir, cause(err)), Why: unwritable, Fix: "Check the permissions of its folders, or name another with --state-dir."}
	case !info.IsDir():
		return Result{Status: Fail, Found: dir + " is not a folder", Why: unwritable, Fix: "Move it away, or name another with --state-dir."}
	case foreign(info):
		return Result{Status: Fail, Found: dir + " belongs to another user", Why: "The control socket is not opened there, and what is written may not be changed later.", Fix: "sudo chown -R $USER " + messages.ShellWord(dir)}
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return Result{Status: Fail, Found: fmt.Sprintf("%s cannot be written to: %v", dir, cause(err)), Why: unwritable, Fix: "chmod 700 " + messages.ShellWord(dir)}
	}
	_, err = f.WriteString("x")
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return Result{Status: Fail, Found: fmt.Sprintf("%s cannot be written to: %v", dir, cause(err)), Why: unwritable, Fix: "Make room on that disk, or name another folder with --state-dir."}
	}
	return Result{Status: OK, Found: dir + ", can be written to"}
}

const unwritable = "Schema cache, audit log, logs of servers and the control socket are kept there; without it metamcp forgets all tools at its end."

// mayWrite tries it, since modes alone do not tell.
func mayWrite(dir string) bool {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}

// modes looks for what other users of the machine can read or change. Behind a
// folder that they cannot enter nothing is open to them.
func (p *Patient) modes(ctx context.Context, dir string) Result {
	info, err := os.Stat(dir)
	if err != nil {
		return Result{Status: Skipped, Found: "there is no state folder"}
	}
	bits := regular.Others(info)
	if bits == 0 {
		return Result{Status: OK, Found: "only this user can enter it"}
	}
	why := "The folder holds the configuration's copies, arguments in logs, and the key of the audit log."
	fix := "chmod 700 " + messages.ShellWord(dir) + "   (or: metamcp doctor --fix)"
	if p.Fix {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder needs x
			return Result{Status: Fail, Found: fmt.Sprintf("%s is open to others (mode %o) and cannot be closed: %v", dir, info.Mode().Perm(), cause(err)), Why: why, Fix: "sudo " + fix}
		}
		return Result{Status: OK, Fixed: true, Found: fmt.Sprintf("%s was open to others (mode %o) and is closed now (700)", dir, info.Mode().Perm())}
	}
	r := Result{Status: Warn, Found: fmt.Sprintf("%s is open to others (mode %o), though nothing in it is", dir, info.Mode().Perm()), Why: why, Fix: fix}
	open, more := readableByOthers(ctx, dir)
	if bits&0o022 != 0 {
		r.Status, r.Found = Fail, fmt.Sprintf("%s can be written to by others (mode %o)", dir, info.Mode().Perm())
		r.Why = "Whoever can write there can change what metamcp starts and hide what it did."
	}
	if len(open) > 0 {
		if r.Status == Warn {
			r.Status, r.Found = Fail, fmt.Sprintf("%s is open to others (mode %o), and so is what is in it", dir, info.Mode().Perm())
		}
		r.Details = open
		if more > 0 {
			r.Details = append(r.Details, fmt.Sprintf("and %d more", more))
		}
	}
	return r
}

// hostsMode looks at the folder of the control sockets, which a host refuses
// where others can enter it, whatever is above.
func (p *Patient) hostsMode(dir string) Result {
	r := Result{ID: "state.hosts-mode", Status: OK, Found: "the folder of control sockets is private"}
	info, err := os.Stat(dir)
	if err != nil {
		return Result{ID: r.ID, Status: Skipped, Found: "no host has run with this state folder yet"}
	}
	if regular.Others(info) == 0 {
		return r
	}
	if p.Fix && os.Chmod(dir, 0o700) == nil { //nolint:gosec // a folder needs x
		r.Fixed, r.Found = true, fmt.Sprintf("%s was open to others (mode %o) and is closed now (700)", dir, info.Mode().Perm())
		return r
	}
	r.Status, r.Found = Fail, fmt.Sprintf("%s is open to others (mode %o)", dir, info.Mode().Perm())
	r.Why = "A host opens no control socket there, so metamcp status, ps and logs do not find it."
	r.Fix = "chmod 700 " + messages.ShellWord(dir) + "   (or: metamcp doctor --fix)"
	return r
}

// readableByOthers names some files that others can read or write to, and folders that
// they can write to, and says how many more there are. Models and libraries are no secrets.
func readableByOthers(ctx context.Context, dir string) (some []string, more int) {
	const most = 5
	seen := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what cannot be read is left out
		if seen++; seen > maxEntries || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil || path == dir {
			return nil //nolint:nilerr // see above
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // it has just been removed
		}
		bits := regular.Others(info)
		if d.IsDir() {
			if name := d.Name(); bits&0o011 == 0 || filepath.Dir(path) == dir && (name == "models" || name == "lib") {
				return fs.SkipDir
			}
			if bits&0o022 == 0 {
				return nil // whoever enters it finds what is looked at next
			}
		} else if !info.Mode().IsRegular() || bits&0o066 == 0 {
			return nil
		}
		if len(some) == most {
			more++
			return nil
		}
		some = append(some, fmt.Sprintf("%s (mode %o)", path, info.Mode().Perm()))
		return nil
	})
	return some, more
}

// space looks at what is free where the state folder is, or will be.
func space(dir string) Result {
	var free int64
	err := errors.New("no folder above it exists")
	for d := dir; ; d = filepath.Dir(d) {
		if _, statErr := os.Stat(d); statErr == nil {
			free, err = diskspace.Free(d)
			break
		}
		if filepath.Dir(d) == d {
			break
		}
	}
	if err != nil {
		return Result{Status: Skipped, Found: "the free space is not known: " + err.Error()}
	}
	r := Result{Status: OK, Found: bytesText(uint64(free)) + " are free"}
	const why = "Where the disk is full, the audit log has gaps and the catalog forgets."
	switch {
	case free < noSpace:
		r.Status, r.Why = Fail, why
	case free < littleSpace:
		r.Status, r.Why = Warn, why
	}
	if r.Status != OK {
		r.Fix = "Make room on that disk, or name another folder with --state-dir."
	}
	return r
}

// catalog looks who has the index store.
func (p *Patient) catalog(ctx context.Context, dir string) Result {
	if !p.Config.Settings.CacheEnabled {
		return Result{Status: Skipped, Found: "cache.enabled is off, so nothing is kept"}
	}
	lock := filepath.Join(dir, "LOCK")
	info, err := os.Lstat(lock)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Result{Status: OK, Found: "there is no index store yet; the first host makes one"}
	case err != nil:
		return Result{Status: Fail, Found: fmt.Sprintf("%s cannot be looked at: %v", lock, cause(err)), Why: noStore, Fix: "chmod 700 " + messages.ShellWord(dir)}
	case !info.Mode().IsRegular():
		return Result{Status: Fail, Found: lock + " is not a regular file", Why: noStore, Fix: "rm -r " + messages.ShellWord(dir) + "   (all of it is made again)"}
	}
	held, err := locked(lock)
	if err != nil {
		return Result{Status: Fail, Found: fmt.Sprintf("%s cannot be opened: %v", lock, cause(err)), Why: noStore, Fix: "rm -r " + messages.ShellWord(dir) + "   (all of it is made again)"}
	}
	total, _ := sizeOf(ctx, dir, func(string) bool { return true })
	if !held {
		return Result{Status: OK, Found: fmt.Sprintf("%s, %s, in use by nobody", dir, bytesText(total))}
	}
	holder := "another process"
	const longest = 32
	if text, err := readBounded(lock, longest); err == nil {
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil {
			holder = "process " + strconv.Itoa(pid)
		}
	}
	return Result{
		Status: OK, Found: fmt.Sprintf("%s, %s, in use by %s", dir, bytesText(total), holder),
		Details: []string{"Further hosts work in memory until that one ends; they read the schema cache."},
	}
}

const noStore = "Without the index store vectors of tools are made anew with each start."

// auditLog checks the chains of hashes.
func (p *Patient) auditLog(ctx context.Context) []Result {
	file := p.Config.Settings.Audit.File
	if file == "" {
		return []Result{{Status: Skipped, Found: "the audit log is off"}}
	}
	reports, err := audit.VerifyAll(ctx, file)
	if errors.Is(err, context.DeadlineExceeded) {
		return []Result{{Status: Skipped, Found: fmt.Sprintf("the audit log is too large to be read here within %s; use metamcp audit verify", Limit)}}
	}
	if errors.Is(err, context.Canceled) {
		return []Result{{Status: Skipped, Found: "interrupted"}}
	}
	if err != nil {
		return []Result{{
			Status: Fail, Found: "the audit log cannot be read: " + err.Error(), Why: "What tools have done cannot be looked up.",
			Fix: "Check the permissions of " + file + "*",
		}}
	}
	if len(reports) == 0 {
		return []Result{{Status: OK, Found: "there is no audit log yet; the first call begins one"}}
	}
	results := make([]Result, len(reports))
	for i := range reports {
		results[i] = auditResult(&reports[i])
	}
	return results
}

func auditResult(rep *audit.Report) Result {
	r := Result{Subject: rep.Path, Status: OK, Found: fmt.Sprintf("%s in %s, whole", count(int(rep.Entries), "entry"), count(len(rep.Files), "file"))}
	if !rep.Whole() {
		const most = 5
		r.Status, r.Found = Fail, fmt.Sprintf("the chain is broken in %s", count(len(rep.Breaks)+rep.MoreBreaks, "place"))
		r.Why = "Entries were changed, removed or added by something else than metamcp, or the disk lost some."
		r.Fix = "metamcp audit verify   shows all of it. To begin a new log: move " + rep.Path + " and its neighbours away."
		for _, b := range rep.Breaks[:min(most, len(rep.Breaks))] {
			at := b.File
			if b.Line > 0 {
				at += ":" + strconv.Itoa(b.Line)
			}
			r.Details = append(r.Details, at+": "+b.Why)
		}
		return r
	}
	if rep.Lost > 0 {
		r.Status, r.Found = Warn, fmt.Sprintf("whole, but %s found no room", count(int(rep.Lost), "entry"))
		r.Why, r.Fix = "The disk was full or too slow, so some calls are not in the log.", "Make room on the disk of "+filepath.Dir(rep.Path)
	}
	return r
}

// logs adds up what logs take.
func (p *Patient) logs(ctx context.Context, dir string) Result {
	servers, _ := sizeOf(ctx, filepath.Join(dir, "logs"), func(string) bool { return true })
	var audits uint64
	if file := p.Config.Settings.Audit.File; file != "" {
		stem := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		audits, _ = sizeOf(ctx, filepath.Dir(file), func(name string) bool { return strings.HasPrefix(name, stem) })
	}
	found := fmt.Sprintf("%s of servers, %s of the audit log", bytesText(servers), bytesText(audits))
	total := servers + audits
	if trace := p.Config.Settings.Trace; filepath.IsAbs(trace) {
		traces, _ := sizeOf(ctx, filepath.Dir(trace), func(name string) bool { return strings.HasPrefix(name, filepath.Base(trace)) })
		found += fmt.Sprintf(", %s of the trace", bytesText(traces))
		total += traces
	}
	if total > largeLogs {
		return Result{
			Status: Warn, Found: found, Why: "Logs turn over, so this much comes from many servers or hosts, or from a trace that was left on.",
			Fix: "Delete what is old in " + dir + "; turn the trace off (METAMCP_TRACE, trace in the configuration).",
		}
	}
	return Result{Status: OK, Found: found}
}

// sizeOf adds up the files below a folder; folders and files that are not
// wanted by their names are left out.
func sizeOf(ctx context.Context, dir string, wanted func(name string) bool) (total uint64, err error) {
	seen := 0
	return total, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if seen++; seen > maxEntries || ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not counted
		}
		if d.IsDir() {
			if path != dir && !wanted(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && wanted(d.Name()) {
			total += uint64(info.Size())
		}
		return nil
	})
}

// bytesText is a number of bytes for people.
func bytesText(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	f, u := float64(n), 0
	for f >= 1024 && u < len(units)-1 {
		f, u = f/1024, u+1
	}
	if u == 0 {
		return count(int(n), "byte")
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}
