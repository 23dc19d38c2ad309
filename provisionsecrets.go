package metamcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/askpage"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/messages"
)

// givenValues is what a user gave for a server that is to be installed.
type givenValues struct {
	env  map[string]string // secrets are references to the store
	kept []string          // the secrets that were stored for it
}

// askSecrets sends the client's user to a page for the values that are missing;
// nil: it cannot, or the user gave none. The page ends with the request, and the
// question to the client with the page.
func (e *Engine) askSecrets(ctx context.Context, caller *front.Caller, a *ProvisionAnswer, progress func(ProvisionStep)) *givenValues {
	s := e.askerOf(caller.Session())
	if s == nil || !caller.Can().URL || caller.Streamless() || !s.local && e.pages.Public == nil || len(a.missing) > askpage.MaxFields {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.ctx, cancel)
	defer stop()
	given := &givenValues{}
	p, err := e.pages.Open(ctx, e.provisionQuestion(s, a, given), s.local)
	if err != nil {
		e.log.Warn("a page that asks for secrets could not be opened", "error", err)
		return nil
	}
	answered := make(chan error, 1)
	go func() {
		answered <- p.Wait()
		cancel() // the client may not have answered yet, or have vanished
	}()
	at := &invitation{
		ID: rand.Text(), Address: p.URL(),
		Message: "metamcp is about to install " + a.Package + ", which needs values that nobody has given, secrets among them: " + names(a.missing) +
			". Open this address to enter them; they go to metamcp alone.",
	}
	client := caller.Client()
	if s.invite(ctx, client, caller.Call(), caller.Era() == messages.EraModern, at) != nil {
		cancel()
	}
	err = waitTelling(answered, progress, "waiting for the user, who enters what "+a.Package+" needs")
	at.over(client, caller.Call())
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			a.Notes = append(a.Notes, notDone(askpage.TimeLimit))
		}
		e.forgetGiven(ctx, given, false)
		return nil
	}
	return given
}

// tellAgain is how often a client is told that its request is worked on: many give one
// up that they hear nothing of.
const tellAgain = 10 * time.Second

// waitTelling waits for an answer, and tells the client so; tell may be nil.
func waitTelling(answered <-chan error, tell func(ProvisionStep), text string) error {
	again := time.NewTicker(tellAgain)
	defer again.Stop()
	for {
		if tell != nil {
			tell(ProvisionStep{Text: text})
		}
		select {
		case err := <-answered:
			return err
		case <-again.C:
		}
	}
}

func names(list []ProvisionVariable) string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].Name
	}
	return strings.Join(out, ", ")
}

// provisionQuestion is the page for the values; what is entered there goes to given.
func (e *Engine) provisionQuestion(s *asker, a *ProvisionAnswer, given *givenValues) askpage.Question {
	q := askpage.Question{
		Server: a.Package, Package: strings.TrimSpace(a.Package + " " + a.Version), Asker: s.client(),
		Why: "It asked metamcp for this server, which is trusted and would be installed now, and which needs these values to run.",
	}
	for i := range a.missing {
		v := &a.missing[i]
		q.Fields = append(q.Fields, askpage.Field{Name: v.Name, Description: v.Description, Secret: looksSecret(*v), Choices: v.Choices})
	}
	q.Keep = func(ctx context.Context, values map[string]string) error {
		if !s.letIn() {
			return errLeft
		}
		env := map[string]string{}
		hidden := map[string]string{}
		store, users := secrets.New(e.Config().Settings.StateDir), e.Config().SecretUsers()
		taken := func(name string) bool {
			_, own := hidden[name]
			return own || len(users[name]) > 0
		}
		for i := range a.missing {
			v := &a.missing[i]
			value := values[v.Name]
			if !looksSecret(*v) {
				if !plainValue(v, value) {
					return fmt.Errorf("%s: a value without $ and line breaks, of at most %d bytes, is needed", v.Name, maxVariable)
				}
				env[v.Name] = value
				continue
			}
			name, err := freeSecret(store, taken, v.Name, a.Package)
			if err != nil {
				return err
			}
			hidden[name] = value
			env[v.Name] = "${secret:" + name + "}"
		}
		kept, err := e.keepSecrets(ctx, hidden)
		given.kept = append(given.kept, kept...)
		if err == nil && len(kept) < len(hidden) {
			err = errors.New("somebody else stores secrets of these names at this moment; try again")
		}
		if err != nil {
			e.forgetGiven(ctx, given, false)
			return err
		}
		given.env = env
		return nil
	}
	return q
}

// plainValue says whether a value that is no secret can be used. A reference would
// hand the server a variable or secret that nobody meant.
func plainValue(v *ProvisionVariable, value string) bool {
	return value != "" && len(value) <= maxVariable && !strings.Contains(value, "$") && !strings.ContainsAny(value, "\x00\r\n") &&
		(len(v.Choices) == 0 || slices.Contains(v.Choices, value))
}

// freeSecret is the name under which a secret for a package is stored: that of the
// variable, or, where there is one of that name for something else, one that says
// what it is for. A name may be taken before anything is stored under it: what is
// stored goes to whoever asks for it.
func freeSecret(store *secrets.Store, taken func(name string) bool, variable, pkg string) (string, error) {
	base := secrets.NameFor(variable)
	_, short, _ := strings.Cut(pkg, "/")
	if short == "" {
		short = pkg
	}
	const tries = 100
	for n := range tries {
		name := base
		switch {
		case n == 1:
			name += "." + secrets.NameFor(short)
		case n > 1:
			name += "." + strconv.Itoa(n)
		}
		if taken(name) {
			continue
		}
		switch _, err := store.Get(name); {
		case errors.Is(err, secrets.ErrNotFound):
			return name, nil
		case err != nil:
			return "", err
		}
	}
	return "", fmt.Errorf("the names %[1]s to %[1]s.%[2]d of secrets are taken; metamcp secrets list shows by whom", base, tries-1)
}

// forgetGiven removes the secrets that were stored for a server that was not
// installed, or, where it was, those that it does not use: it may have been installed
// for somebody else at the same time.
func (e *Engine) forgetGiven(ctx context.Context, given *givenValues, installed bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	store := secrets.New(e.Config().Settings.StateDir)
	users := e.Config().SecretUsers()
	for _, name := range given.kept {
		if installed && len(users[name]) > 0 {
			continue
		}
		if _, err := store.Remove(ctx, name); err != nil {
			e.log.Warn("a secret that was given for a server that was not installed could not be removed", "name", name, "error", err)
		}
	}
	given.kept = nil
}
