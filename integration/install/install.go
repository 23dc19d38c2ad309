package install

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/safename"
)

// Installed is a server whose files are in place and that nobody knows of yet.
// Either [Installed.Keep] or [Installed.Discard] must be called, by one goroutine
// at a time; while neither was, and this process lives, nobody deletes it. What was kept
// ends with [Installed.Release].
type Installed struct {
	// Name is what it would be called, where that is free.
	Name        string
	Description string
	Source      provisioned.Source
	// Entry is how it is started from now on, as in a configuration file.
	Entry Entry
	Needs []Need
	// Tree is what is on disk; zero where nothing is.
	Tree provisioned.Tree
	// Notes are what else one should know, such as scripts that were not run.
	Notes []string

	lock  *provisioned.Lock
	claim *provisioned.Claim // nil where nothing is on disk
	data  string             // the folder of its data; "": it has none
	kept  bool               // the lock file names it
}

// Install does what the plan says. It takes seconds to minutes, Options.Timeout
// at most; when ctx ends, every process that it started is killed, and nothing
// is left on disk. The error is an *[Error], or that of ctx. A plan may be
// installed more than once, also at the same time: each has its own folder.
func (p *Plan) Install(ctx context.Context) (*Installed, error) {
	switch {
	case !p.Installable:
		return nil, fail(p.refusal, "Put the entry into .mcp.json by hand, or choose another way to get it.", "%s cannot be installed: %s", p.Name, p.Why)
	case len(p.Missing) > 0:
		return nil, missing(p.Name, p.Missing)
	}
	lock := provisioned.Open(p.opts.StateDir)
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the program instead
	folder := safename.SafeName(strings.ToLower(p.Name + "-" + p.Source.Version + "-" + hex.EncodeToString(id[:])))
	claim, err := lock.Claim(folder)
	if err != nil {
		return nil, onDisk("making a folder for "+p.Name, err)
	}
	bounded, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	done, err := p.into(bounded, lock, claim)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case bounded.Err() != nil && !isReason(err, TimedOut):
			err = &Error{Reason: TimedOut, Message: fmt.Sprintf("installing %s took longer than %v and was ended", p.Name, p.opts.Timeout), Hint: "Try again; the network may be slow.", Cause: err}
		}
		if discardErr := claim.Discard(); discardErr != nil {
			return nil, fail(Failed, "A later start of metamcp deletes it.", "%v; and what was written could not be deleted: %v", err, discardErr)
		}
		return nil, err
	}
	return done, nil
}

func isReason(err error, reason Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}

func missing(name string, needs []Need) *Error {
	names := make([]string, len(needs))
	for i := range needs {
		names[i] = describe(&needs[i])
	}
	e := fail(Missing, "Give each a value, secrets as ${NAME} of an environment variable.", "%s needs values that nobody gave: %s", name, strings.Join(names, "; "))
	e.Needs = needs
	return e
}

func (p *Plan) into(ctx context.Context, lock *provisioned.Lock, claim *provisioned.Claim) (*Installed, error) {
	// Plans are shared, so what is learned goes into a copy.
	own := *p
	p = &own
	p.opts.Progress("installing " + p.Source.Package + " " + p.Source.Version)
	s, err := p.way.install(ctx, p, claim)
	if err != nil {
		return nil, err
	}
	e := s.entry
	if !s.complete {
		e.Args = append(e.Args, p.inputs.args...)
		e.Env = merge(e.Env, p.inputs.env)
	}
	done := &Installed{
		Name: p.Name, Description: p.Description, Source: p.Source, Entry: e, Needs: p.Needs,
		Notes: slices.Concat(p.Notes, s.notes), lock: lock,
	}
	done.Entry.Env, done.data = p.dataEnv(lock, e.Env)
	if empty, err := isEmpty(claim.Dir()); err != nil {
		return nil, onDisk("looking into "+claim.Dir(), err)
	} else if empty {
		return done, onDisk("giving back an empty folder", claim.Discard())
	}
	p.opts.Progress("checking what was installed")
	if done.Tree, err = provisioned.Record(ctx, claim.Dir()); err != nil {
		return nil, onDisk("reading what was installed", err)
	}
	if err := claim.Place(); err != nil {
		return nil, onDisk("moving "+p.Name+" into place", err)
	}
	if done.data != "" {
		if err := os.MkdirAll(done.data, 0o700); err != nil {
			return nil, onDisk("making "+done.data, err)
		}
	}
	done.claim = claim
	return done, nil
}

// keepsIn are packages that keep data beside their code unless a variable names
// a file for it, and what to call that file.
var keepsIn = map[string]map[string]string{
	"npm:@modelcontextprotocol/server-memory": {"MEMORY_FILE_PATH": "memory.jsonl"},
}

// dataEnv names a place outside of the installation, in the folder dir, to servers
// that would keep data in it, unless somebody chose one. It adds to a copy. dir is ""
// for all other servers.
func (p *Plan) dataEnv(lock *provisioned.Lock, env map[string]string) (own map[string]string, dir string) {
	names := keepsIn[p.Source.Kind+":"+p.Source.Package]
	if len(names) == 0 {
		return env, ""
	}
	dir = lock.DataDir(&p.Source)
	places := map[string]string{}
	for name, file := range names {
		places[name] = literal(filepath.Join(dir, file))
	}
	return merge(places, env), dir
}

func merge(base, over map[string]string) map[string]string {
	if len(base) == 0 && len(over) == 0 {
		return nil
	}
	out := maps.Clone(over)
	if out == nil {
		out = map[string]string{}
	}
	for k, v := range base {
		if _, ok := out[k]; !ok {
			out[k] = v
		}
	}
	return out
}

func isEmpty(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	return len(entries) == 0, err
}

// Locked is the server as the lock file would have it, for a trial start.
func (i *Installed) Locked() provisioned.Locked {
	l := provisioned.Locked{Name: i.Name, Description: i.Description, Entry: i.Entry, Source: i.Source, Needs: i.Needs, Tree: i.Tree.Hash}
	if i.claim != nil {
		l.Folder = i.claim.Folder()
	}
	return l
}

// Keep puts the server into the lock file, from which every host that shares
// the state folder takes it within two seconds. name is what it is to be called,
// "" as suggested; where that is taken, also by taken (which may be nil), it gets
// a number. allowedBy is the entry of the trust file that allowed it or
// [provisioned.APerson], reason why its gates were open.
//
// Where the very same server was kept before, this one is discarded and that one
// returned, and fresh is false: it is not the caller's to remove. Where whoever kept
// that one may still undo it, Keep waits until it is released, and keeps this one where
// that one is gone. A server of which nothing is on disk is not waited for. After an
// error the caller still discards it.
func (i *Installed) Keep(ctx context.Context, name string, taken func(string) bool, allowedBy, reason string) (kept *provisioned.Locked, fresh bool, err error) {
	l := i.Locked()
	if name != "" {
		l.Name = name
	}
	l.AllowedBy, l.Reason = allowedBy, reason
	var locked provisioned.Locked
	for {
		if locked, fresh, err = i.lock.Keep(ctx, l, taken); err != nil {
			return nil, false, onDisk("writing the lock file", err)
		}
		if fresh {
			break
		}
		there, err := i.lock.Await(ctx, &locked)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case err != nil:
			return nil, false, onDisk("waiting for who installed "+locked.Name, err)
		case there:
			return &locked, false, i.Discard()
		}
	}
	i.kept = true
	if i.data != "" {
		// Until now it was nobody's, and whoever discarded the same package may have
		// deleted it. Where it cannot be made again, the server will say so.
		_ = os.MkdirAll(i.data, 0o700)
	}
	return &locked, true, nil
}

// Release ends the keeping: until then others that have installed the very same server
// wait, since it may still be removed. Calling it again, or where it was not kept, does
// nothing.
func (i *Installed) Release() {
	if i.kept && i.claim != nil {
		// The file of a claim that cannot be given back is swept away later.
		_ = i.claim.Release()
	}
}

// Discard deletes what was installed, unless it was kept. Data that the server wrote
// on trial stays.
func (i *Installed) Discard() error {
	if i.claim == nil || i.kept {
		return nil
	}
	if i.data != "" {
		i.lock.DropData(context.Background(), &i.Source)
	}
	return onDisk("deleting "+i.Name, i.claim.Discard())
}
