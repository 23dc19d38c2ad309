package index

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metamcp/metamcp/index/embed"
)

// patientSearcher waits for the look into the store as long as that takes on any machine.
func patientSearcher(view *View) *Searcher {
	s := NewSearcher(view)
	s.patience = patience
	return s
}

// The first search after a restart finds by meaning, since nothing has to be embedded.
func TestTheFirstSearchHasWhatTheStoreHas(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, dir, builtinEmbedder(t), map[string][]string{"few": few})
	h.settle()
	h.close()
	e := builtinEmbedder(t)
	h = newHost(t, dir, e, map[string][]string{"few": nil})
	h.sys.Send(h.pid, &Begin{})
	matches, note, soon := patientSearcher(h.view).Search(t.Context(), Hybrid{}, Query{Text: "schedule a meeting with Bob"})
	if len(matches) == 0 || matches[0].Entry.Tool.Name != "create_event" || note != "" || soon {
		t.Errorf("found %s, note %q, more soon: %t", found(matches), note, soon)
	}
	if n := e.embedded(t); n != 0 {
		t.Errorf("%d texts were embedded", n)
	}
}

// An embedder that is slow with documents answers queries all the while.
type slowDocuments struct{ *counting }

func (s slowDocuments) Embed(ctx context.Context, kind embed.Kind, texts []string) ([][]float32, error) {
	if kind == embed.Document {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.counting.Embed(ctx, kind, texts)
}

// Nobody waits until tools are embedded.
func TestASearchWaitsForNoEmbedding(t *testing.T) {
	h := newHost(t, t.TempDir(), slowDocuments{builtinEmbedder(t)}, map[string][]string{"shop": shop})
	h.sys.Send(h.pid, &Begin{})
	s := patientSearcher(h.view)
	s.patience = 2 * patience
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	matches, note, soon := s.Search(ctx, Hybrid{}, Query{Text: "screenshot"})
	if ctx.Err() != nil {
		t.Error("it waited for the embedder")
	}
	if len(matches) == 0 || note == "" || !soon {
		t.Errorf("found %s, note %q, more soon: %t", found(matches), note, soon)
	}
}

// A store that is slow to open holds a search up for a moment.
func TestASearchDoesNotWaitLongForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := share(builtinEmbedder(t))
		view := &View{look: newLook(), background: newBackground()}
		view.p.Store(new(Catalog).With(toolset(t, "shop", shop...), Labels{}))
		view.embedder.Store(e)
		view.status.Store(&Status{Model: e.model})
		began := time.Now()
		_, note, soon := NewSearcher(view).Search(t.Context(), Hybrid{}, Query{Text: "screenshot"})
		if took := time.Since(began); took != lookPatience || note == "" || !soon {
			t.Errorf("after %v it says %q, more soon: %t", took, note, soon)
		}
		if err := e.end(); err != nil {
			t.Error(err)
		}
	})
}
