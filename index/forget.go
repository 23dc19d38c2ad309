package index

import (
	"errors"
	"math"

	"github.com/metamcp/metamcp/index/store"
	"github.com/metamcp/metamcp/messages"
)

// Forget deletes from the store what it holds of the servers of one
// configuration, so that it is made anew: the vectors of their tools by model,
// and those listings that the cache has too. model may be ""; then only
// listings go. What other configurations, or other models, put there stays,
// but for vectors of tools that are the same. The store must not be in use by
// an index.
func Forget(st *store.Store, cache *Cache, specs []*messages.ServerSpec, rules *Rules, model string) error {
	byName := make(map[string]*messages.ServerSpec, len(specs))
	names := make([]string, 0, len(specs))
	for _, spec := range specs {
		byName[spec.Name] = spec
		names = append(names, spec.Name)
	}
	cached := map[string]bool{}
	catalog := new(Catalog).Ruled(rules)
	sets, _ := cache.LoadAll(names, loadParallel) // whoever opens the catalog reports files that are broken
	for _, ts := range sets {
		cached[ts.Server] = true
		catalog = catalog.With(ts, labels(byName[ts.Server], nil))
	}
	err := st.Listings(func(server string, raw []byte) error {
		if spec := byName[server]; spec != nil && !cached[server] {
			if ts, err := decodeToolset(server, raw); err == nil {
				catalog = catalog.With(ts, labels(spec, nil))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if model != "" {
		needed := (&sweeping{catalog: catalog, background: newBackground()}).needed()
		_, err = st.Sweep(model, func(hash [32]byte) bool { _, ok := needed[hash]; return !ok }, math.MaxInt64)
	}
	if err == nil {
		_, err = st.DeleteListings(func(server string, _ []byte) bool { return !cached[server] })
	}
	if err == nil {
		_, err = st.Compact()
	}
	if err != nil {
		return errors.Join(errors.New("the index store could not be cleared"), err)
	}
	return nil
}
