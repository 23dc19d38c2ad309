package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// fakeProvisioner does what the intent of a request says: "local", "install
// KEY", "deny KEY", whose job is denied once it is let go, "hang", "panic", or "break KEY",
// whose job panics.
type fakeProvisioner struct {
	mu     sync.Mutex
	began  []string // keys of jobs, in order
	undone []string
	looked int
	// release lets all jobs of a key finish, undo lets those be undone that were
	// cancelled.
	release, undo map[string]chan struct{}
}

func newFakeProvisioner() *fakeProvisioner {
	return &fakeProvisioner{release: map[string]chan struct{}{}, undo: map[string]chan struct{}{}}
}

func (f *fakeProvisioner) gate(m map[string]chan struct{}, key string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m[key] == nil {
		m[key] = make(chan struct{})
	}
	return m[key]
}

func (f *fakeProvisioner) letGo(key string)   { close(f.gate(f.release, key)) }
func (f *fakeProvisioner) letUndo(key string) { close(f.gate(f.undo, key)) }

func (f *fakeProvisioner) seen() (began, undone []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.began), slices.Clone(f.undone)
}

func (f *fakeProvisioner) Look(ctx context.Context, p *messages.Provision, step func(string)) (*messages.ProvisionReport, ProvisionJob) {
	f.mu.Lock()
	f.looked++
	f.mu.Unlock()
	step("looking")
	word, key, _ := strings.Cut(p.Intent, " ")
	switch word {
	case "hang":
		<-ctx.Done()
		return failedProvision(cancelledProvision("late")), nil
	case "panic":
		panic("of the look")
	case "install", "break", "deny":
		return &messages.ProvisionReport{Notes: []string{"look of " + p.Context}}, &fakeJob{f, key, word == "break", word == "deny"}
	}
	return &messages.ProvisionReport{Decision: messages.DecisionLocal}, nil
}

type fakeJob struct {
	f      *fakeProvisioner
	key    string
	breaks bool
	denied bool
}

func (j *fakeJob) Key() string { return j.key }

func (j *fakeJob) Do(ctx context.Context, step func(string)) *messages.ProvisionReport {
	if j.breaks {
		panic("of the job")
	}
	j.f.mu.Lock()
	j.f.began = append(j.f.began, j.key)
	j.f.mu.Unlock()
	step("installing " + j.key)
	select {
	case <-j.f.gate(j.f.release, j.key):
		if j.denied {
			return &messages.ProvisionReport{Decision: messages.DecisionDenied}
		}
		return &messages.ProvisionReport{Decision: messages.DecisionProvisioned, Server: j.key, Notes: []string{"installed"}}
	case <-ctx.Done():
		<-j.f.gate(j.f.undo, j.key)
		j.f.mu.Lock()
		j.f.undone = append(j.f.undone, j.key)
		j.f.mu.Unlock()
		return failedProvision(cancelledProvision("undone"))
	}
}

// wanted is a request and what was heard of it.
type wanted struct {
	p     *messages.Provision
	ended chan struct{}

	mu      sync.Mutex
	steps   []string
	reports []*messages.ProvisionReport
}

func (w *wanted) Stepped(s messages.ProvisionStep) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps, fmt.Sprint(s.Number, " ", s.Text))
}

func (w *wanted) Ended(r *messages.ProvisionReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reports = append(w.reports, r); len(w.reports) == 1 {
		close(w.ended)
	}
}

func (w *wanted) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.steps)
}

type provisionRig struct {
	*rig
	f    *fakeProvisioner
	asks []*wanted
}

func newProvisionRig(t *testing.T) *provisionRig {
	f := newFakeProvisioner()
	r := &provisionRig{rig: newRigWith(t, nil, func(o *Options) { o.Provisioner = f }), f: f}
	t.Cleanup(func() {
		for _, w := range r.asks {
			if n := len(w.reports); n != 1 {
				t.Errorf("%q got %d answers", w.p.Intent, n)
			}
		}
	})
	return r
}

func (r *provisionRig) ask(intent string) *wanted {
	id := lastCall.Add(1)
	w := &wanted{ended: make(chan struct{})}
	w.p = &messages.Provision{Meta: messages.Meta{Trace: id}, ID: id, Intent: intent, Context: fmt.Sprint(len(r.asks)), Cancelled: &atomic.Bool{}, Reply: w}
	r.asks = append(r.asks, w)
	r.e.Provision(w.p)
	return w
}

func (r *provisionRig) report(w *wanted) *messages.ProvisionReport {
	r.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(soon):
		r.t.Fatalf("no end of %q; it said %q", w.p.Intent, w.said())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reports[0]
}

func (r *provisionRig) wants(w *wanted, decision messages.ProvisionDecision, code messages.Code) *messages.ProvisionReport {
	r.t.Helper()
	rep := r.report(w)
	got := messages.Code("")
	if rep.Err != nil {
		got = rep.Err.Code
	}
	if rep.Decision != decision || got != code {
		r.t.Fatalf("%q: %s %v, want %s %s", w.p.Intent, rep.Decision, rep.Err, decision, code)
	}
	return rep
}

func (r *provisionRig) until(what string, ok func() bool) {
	r.t.Helper()
	r.rig.f.eventually(r.t, what, ok)
}

// installing waits until a request heard that its package is being installed.
func (r *provisionRig) installing(w *wanted) {
	r.t.Helper()
	r.until("an install for "+w.p.Intent, func() bool {
		return slices.ContainsFunc(w.said(), func(s string) bool { return strings.Contains(s, "installing") })
	})
}

func TestProvisionOfOnePackageIsDoneOnce(t *testing.T) {
	r := newProvisionRig(t)
	r.wants(r.ask("local"), messages.DecisionLocal, "")
	first, second := r.ask("install a"), r.ask("install a")
	other := r.ask("install b")
	r.installing(first)
	r.installing(second)
	r.installing(other)
	if got := r.e.ProvisionStatus(); !slices.Equal(got.Installing, []string{"a", "b"}) || got.Looking != 0 {
		t.Errorf("status: %+v", got)
	}
	r.f.letGo("a")
	for i, w := range []*wanted{first, second} {
		rep := r.wants(w, messages.DecisionProvisioned, "")
		if want := []string{fmt.Sprint("look of ", i+1), "installed"}; rep.Server != "a" || !slices.Equal(rep.Notes, want) {
			t.Errorf("%+v, want notes %q", rep, want)
		}
	}
	r.f.letGo("b")
	r.wants(other, messages.DecisionProvisioned, "")
	began, _ := r.f.seen()
	slices.Sort(began)
	if !slices.Equal(began, []string{"a", "b"}) {
		t.Errorf("jobs %q", began)
	}
	if want := []string{"1 looking", "2 installing a"}; !slices.Equal(first.said(), want) {
		t.Errorf("steps %q, want %q", first.said(), want)
	}
	if got := r.e.ProvisionStatus().Decisions; got[messages.DecisionProvisioned] != 3 || got[messages.DecisionLocal] != 1 {
		t.Errorf("decisions %v", got)
	}
}

// That one may not have a package says nothing of who waits beside it.
func TestProvisionThatIsDeniedMeanwhileIsDoneForOthers(t *testing.T) {
	r := newProvisionRig(t)
	first := r.ask("deny a")
	r.installing(first)
	second, third := r.ask("install a"), r.ask("install a")
	r.installing(second)
	r.installing(third)
	r.f.letGo("a")
	r.wants(first, messages.DecisionDenied, "")
	r.wants(second, messages.DecisionProvisioned, "")
	r.wants(third, messages.DecisionProvisioned, "")
	if began, _ := r.f.seen(); len(began) != 2 {
		t.Errorf("jobs %q, want one that is denied and one for all others", began)
	}
}

func TestProvisionIsUndoneOnlyWhereNobodyElseWaits(t *testing.T) {
	r := newProvisionRig(t)
	first, second := r.ask("install a"), r.ask("install a")
	r.installing(first)
	r.installing(second)
	r.e.CancelProvision(first.p, "changed my mind")
	r.wants(first, messages.DecisionFailed, messages.CodeCancelled)
	if _, undone := r.f.seen(); len(undone) > 0 {
		t.Fatalf("undone while somebody waits: %q", undone)
	}
	r.e.CancelProvision(second.p, "")
	r.wants(second, messages.DecisionFailed, messages.CodeCancelled)
	// One that comes while it is being undone waits, and gets one of its own.
	third := r.ask("install a")
	r.until("a wait for the undoing", func() bool {
		return slices.ContainsFunc(third.said(), func(s string) bool { return strings.Contains(s, "undone") })
	})
	if began, _ := r.f.seen(); len(began) != 1 {
		t.Fatalf("jobs %q beside one that is being undone", began)
	}
	r.f.letUndo("a")
	r.installing(third)
	r.f.letGo("a")
	r.wants(third, messages.DecisionProvisioned, "")
	if began, undone := r.f.seen(); len(began) != 2 || len(undone) != 1 {
		t.Errorf("began %q, undone %q", began, undone)
	}
}

func TestProvisionIsBounded(t *testing.T) {
	r := newProvisionRig(t)
	var looking []*wanted
	for range maxLooks {
		looking = append(looking, r.ask("hang"))
	}
	r.until("all to be looked for", func() bool { return r.e.ProvisionStatus().Looking == maxLooks })
	refused := r.wants(r.ask("local"), messages.DecisionFailed, messages.CodePoolSaturated)
	if !refused.Err.Retryable || refused.Err.RetryAfter <= 0 || refused.Err.Hint == "" {
		t.Errorf("refused with %+v", refused.Err)
	}
	for _, w := range looking {
		r.e.CancelProvision(w.p, "")
		r.wants(w, messages.DecisionFailed, messages.CodeCancelled)
	}
	var jobs []*wanted
	for i := range maxInstalls {
		w := r.ask(fmt.Sprint("install ", i))
		r.installing(w)
		jobs = append(jobs, w)
	}
	r.wants(r.ask("install more"), messages.DecisionFailed, messages.CodePoolSaturated)
	r.wants(r.ask("local"), messages.DecisionLocal, "")
	for i, w := range jobs {
		r.f.letGo(fmt.Sprint(i))
		r.wants(w, messages.DecisionProvisioned, "")
	}
}

func TestProvisionThatBreaksIsAnswered(t *testing.T) {
	r := newProvisionRig(t)
	for _, intent := range []string{"panic", "break a"} {
		rep := r.wants(r.ask(intent), messages.DecisionFailed, messages.CodeToolExecution)
		if !strings.Contains(rep.Err.Message, "broke inside metamcp") {
			t.Errorf("%q: %v", intent, rep.Err)
		}
	}
	w := r.ask("install a") // not in the way of others
	r.installing(w)
	r.f.letGo("a")
	r.wants(w, messages.DecisionProvisioned, "")
}

func TestProvisionEndsWithTheHost(t *testing.T) {
	r := newProvisionRig(t)
	looking, working := r.ask("hang"), r.ask("install a")
	r.installing(working)
	r.f.letUndo("a")
	r.close() // waits for what undoes the install
	r.wants(looking, messages.DecisionFailed, messages.CodeShuttingDown)
	r.wants(working, messages.DecisionFailed, messages.CodeShuttingDown)
	if _, undone := r.f.seen(); !slices.Equal(undone, []string{"a"}) {
		t.Errorf("undone: %q", undone)
	}
	r.wants(r.ask("local"), messages.DecisionFailed, messages.CodeShuttingDown)
}

func TestProvisionWithoutAProvisioner(t *testing.T) {
	r := &provisionRig{rig: newRig(t, nil)}
	r.wants(r.ask("local"), messages.DecisionFailed, messages.CodeProvisionDenied)
}
