package metamcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/store"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/safename"
	"github.com/metamcp/metamcp/messages"
)

// StoreReport says what the index store holds.
type StoreReport struct {
	Path string `json:"path"`
	// InUse says that a running host has the store; the figures are then
	// those that it wrote down last.
	InUse   bool                `json:"inUse"`
	Figures *index.StoreFigures `json:"figures,omitempty"`
	// Embedder is the model that the configuration would use; "": none.
	Embedder string `json:"embedder,omitempty"`
	// EmbedderTrouble is why the configured embedder cannot be used; "": it
	// can, or there is none.
	EmbedderTrouble string `json:"embedderTrouble,omitempty"`
}

// storePath is the folder of the index store; "": nothing is kept.
func storePath(st *config.Settings) string {
	if st.StateDir == "" || !st.CacheEnabled {
		return ""
	}
	return filepath.Join(st.StateDir, "catalog")
}

// openStore opens the store of a configuration for a command. It returns a nil
// store where a running host has it.
func openStore(src config.Sources) (st *store.Store, cfg *config.Config, err error) {
	cfg, err = config.Load(src)
	if err != nil {
		return nil, nil, err
	}
	path := storePath(&cfg.Settings)
	if path == "" {
		return nil, nil, &Error{Code: messages.CodeConfiguration, Message: "nothing is kept on disk, so there is no index store", Hint: "Set stateDir, and leave cache.enabled on."}
	}
	st, err = store.Open(path, store.Options{})
	if errors.Is(err, store.ErrLocked) {
		return nil, cfg, nil
	}
	if err != nil {
		return nil, nil, &Error{Code: messages.CodeConfiguration, Message: err.Error(), Cause: err}
	}
	return st, cfg, nil
}

func inUse(cfg *config.Config) error {
	return &Error{
		Code: messages.CodeConfiguration, Message: "a running host uses the index store in " + storePath(&cfg.Settings),
		Hint: "End that host first, or name another --state-dir.",
	}
}

// ReportStore says what the index store of a configuration holds.
func ReportStore(src config.Sources) (*StoreReport, error) {
	st, cfg, err := openStore(src)
	if err != nil {
		return nil, err
	}
	r := &StoreReport{Path: storePath(&cfg.Settings), InUse: st == nil}
	switch e, err := newEmbedder(embedderSettings(cfg), slog.New(slog.DiscardHandler)); {
	case err != nil:
		r.EmbedderTrouble = err.Error()
	case e != nil:
		r.Embedder = e.Model()
		_ = e.Close() // it did nothing yet
	}
	if st == nil {
		r.Figures, err = index.ReadFigures(r.Path)
		return r, err
	}
	r.Figures, err = index.Figures(st)
	return r, errors.Join(err, st.Close())
}

// ExportStore writes what the index store holds as lines of JSON, with the
// numbers of each vector if vectors is set.
func ExportStore(src config.Sources, w io.Writer, vectors bool) error {
	st, cfg, err := openStore(src)
	if err != nil {
		return err
	}
	if st == nil {
		return inUse(cfg)
	}
	return errors.Join(st.Export(w, store.ExportOptions{Vectors: vectors}), st.Close())
}

// Rebuild says how much of the index store is made anew.
type Rebuild struct {
	// All empties the store; what other configurations put there is lost, and
	// is learned again when they are used. Otherwise only what is known of
	// this configuration's servers is made anew: their listings, and the
	// vectors of their tools by the model in force.
	All bool
}

// RebuildStore embeds all tools of the configuration that are known from the
// schema cache anew. It starts no server. Nothing is lost where the embedder
// does not work.
func RebuildStore(ctx context.Context, opts Options, what Rebuild) (*StoreReport, error) {
	st, cfg, err := openStore(opts.Sources)
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, inUse(cfg)
	}
	model, err := tryEmbedder(ctx, cfg)
	switch {
	case err != nil:
	case what.All:
		err = empty(st)
	default:
		err = forget(st, cfg, model)
	}
	if err := errors.Join(err, st.Close()); err != nil {
		return nil, err
	}
	e, err := Open(ctx, opts)
	if err != nil {
		return nil, err
	}
	err = e.core.Settle(ctx)
	trouble := e.core.IndexStatus().Trouble
	if err := errors.Join(err, e.Close(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	if trouble != nil {
		return nil, trouble
	}
	return ReportStore(opts.Sources)
}

func empty(st *store.Store) error {
	_, err := st.Sweep("", nil, 0)
	if err == nil {
		_, err = st.DeleteListings(func(string, []byte) bool { return false })
	}
	if err == nil {
		_, err = st.Compact()
	}
	return err
}

func forget(st *store.Store, cfg *config.Config, model string) error {
	rules, err := toolRules(cfg)
	if err != nil {
		return err
	}
	return index.Forget(st, index.NewCache(cfg.Settings.StateDir, safename.SafeName), cfg.Servers, rules, model)
}

// tryEmbedder returns the model of the embedder of a configuration, "" where
// there is none, or says why it cannot be used.
func tryEmbedder(ctx context.Context, cfg *config.Config) (model string, err error) {
	e, err := newEmbedder(embedderSettings(cfg), slog.New(slog.DiscardHandler))
	if err != nil || e == nil {
		return "", err
	}
	_, err = e.Embed(ctx, embed.Document, []string{"take a screenshot"})
	return e.Model(), errors.Join(err, e.Close())
}
