package metamcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/askpage"
	"github.com/metamcp/metamcp/integration/oauth"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/messages"
)

// mayBeCured gives the server whose call failed for something that its user may mend; nil:
// there is none, or it was tried often enough.
func (w *curable) mayBeCured(a *messages.Answer) *messages.ServerSpec {
	if a.Err == nil || a.Err.Class != messages.ClassAuth && a.Err.Code != messages.CodeConfiguration || w.rounds >= mostCures {
		return nil
	}
	spec := w.s.e.Config().Server(cmp.Or(a.Err.Server, a.Server))
	if spec == nil || spec.Disabled {
		return nil
	}
	return spec
}

// The subjects of remedies.
func loginAt(server string) string   { return "login " + server }
func secretsOf(server string) string { return "secrets of " + server }

// mend does what can be done about a failed call: it is made again where what it failed
// for was mended since it was made, or its user is asked. Otherwise it is answered.
func (w *curable) mend(ctx context.Context, a *messages.Answer, spec *messages.ServerSpec) {
	// What is lacking is looked at first: what is mended after that is known as mended.
	r := w.remedy(spec, a.Err)
	switch {
	case w.s.e.cures.mendedSince(w.tried, r == nil, loginAt(spec.Name), secretsOf(spec.Name)):
		w.anew()
	case r == nil, r.local && !w.s.local, !w.s.mayMend(): // what is mended is mended for all clients
		w.next.Answer(a)
	default:
		r.patience = spec.Timeout
		w.cure(ctx, a, r)
	}
}

// remedy gives what the calls of a server lack; nil: nothing that its user could give,
// or nothing any more.
func (w *curable) remedy(spec *messages.ServerSpec, failure *Error) *remedy {
	if r := w.s.e.loginRemedy(spec, failure); r != nil {
		return r
	}
	return w.s.secretsRemedy(spec)
}

// loginRemedy is a login at a server that wants one.
func (e *Engine) loginRemedy(spec *messages.ServerSpec, failure *Error) *remedy {
	if failure.Class != messages.ClassAuth || spec.Transport == messages.TransportStdio || spec.HasAuthorization() ||
		spec.OAuth != nil && spec.OAuth.ClientCredentials {
		return nil
	}
	c, err := e.logins.Client(spec)
	if err != nil || !c.WantsLogin() {
		return nil
	}
	return &remedy{
		subject: loginAt(spec.Name), local: true, // the authorization server sends the browser to the loopback
		single:  spec.OAuth != nil && spec.OAuth.RedirectPort != 0,
		message: fmt.Sprintf("The MCP server %q wants a login. Open this address and log in there; the call then goes on by itself.", spec.Name),
		mend: func(ctx context.Context, ready func(string)) error {
			_, err := c.Login(ctx, oauth.Person{Visit: ready})
			return authError(err)
		},
	}
}

// secretsRemedy is a page on which the user gives the secrets that the entry of a
// server names and nobody has stored.
func (s *asker) secretsRemedy(spec *messages.ServerSpec) *remedy {
	missing := s.e.Config().MissingSecrets(spec.Name)
	if spec.Err == nil || len(missing) == 0 || len(missing) > askpage.MaxFields {
		return nil
	}
	q := askpage.Question{Server: spec.Name, Asker: s.client(), Why: "Its entry in the configuration names secrets that are not stored, so that it cannot be started."}
	if spec.Provisioned != nil {
		q.Package = spec.Provisioned.Package
	}
	described := s.e.described(spec)
	for _, name := range missing {
		q.Fields = append(q.Fields, askpage.Field{Name: name, Secret: true, Description: described[name]})
	}
	q.Keep = func(ctx context.Context, values map[string]string) error {
		if !s.letIn() {
			return errLeft
		}
		kept, err := s.e.keepSecrets(ctx, values)
		if err != nil {
			return err
		}
		if err := s.e.Reload(ctx); err != nil {
			return errors.Join(fmt.Errorf("%d values are kept, but the configuration cannot be read", len(kept)), err)
		}
		if len(kept) < len(values) {
			return askpage.ErrTaken
		}
		return nil
	}
	return &remedy{
		subject: secretsOf(spec.Name), local: s.e.pages.Public == nil,
		message: fmt.Sprintf("The MCP server %q needs secrets that are not stored: %s. Open this address to enter them; they go to metamcp alone, and the call then goes on by itself.", spec.Name, strings.Join(missing, ", ")),
		mend: func(ctx context.Context, ready func(string)) error {
			p, err := s.e.pages.Open(ctx, q, s.local)
			if err != nil {
				return err
			}
			ready(p.URL())
			return p.Wait()
		},
	}
}

// described says what is known of the secrets of a server: of one that metamcp
// installed, what its description says.
func (e *Engine) described(spec *messages.ServerSpec) map[string]string {
	list := map[string]string{}
	if spec.Provisioned == nil {
		return list
	}
	locked, err := provisioner{e}.lock().List()
	if err != nil {
		return list // the page does without
	}
	for i := range locked {
		if locked[i].Name != spec.Name {
			continue
		}
		for _, n := range locked[i].Needs {
			list[n.Name] = n.Description
		}
	}
	return list
}

// client is how the client of the session calls itself, for people.
func (s *asker) client() string {
	if known, ok := s.e.clients.Load(s.session.ID()); ok {
		if name := known.(client).peer.GetClientInfo().Name; name != "" {
			return "a client that calls itself " + name
		}
	}
	return "a client that does not say its name"
}

// keepSecrets stores values under their names, and lets the scrubber know them
// before anybody can use them. It returns the names of those that it stored: one that
// somebody has stored meanwhile stays as it is. Its error holds no value.
func (e *Engine) keepSecrets(ctx context.Context, values map[string]string) (kept []string, err error) {
	select { // of two that are entered at once the first counts
	case e.keeping <- struct{}{}:
		defer func() { <-e.keeping }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	store := secrets.New(e.Config().Settings.StateDir)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, err := store.Get(name); !errors.Is(err, secrets.ErrNotFound) {
			if err != nil {
				return kept, err
			}
			continue
		}
		e.learnEntered(name, values[name])
		if _, err := store.Set(ctx, name, values[name], false); err != nil {
			return kept, err
		}
		kept = append(kept, name)
	}
	return kept, nil
}
