package web

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// maxQuery bounds a query and the names in one, in bytes.
const maxQuery = 1000

//go:embed page
var page embed.FS

// types are those of the page's files; the system's own list may say anything.
var types = map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

// routes returns all endpoints.
func (s *Server) routes() (*http.ServeMux, error) {
	mux := http.NewServeMux()
	files, err := page.ReadDir("page")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := page.ReadFile("page/" + f.Name())
		if err != nil {
			return nil, err
		}
		pattern := "/" + f.Name()
		if f.Name() == "index.html" {
			pattern = "/{$}"
		}
		kind := mime.FormatMediaType(types[path.Ext(f.Name())], map[string]string{"charset": "utf-8"})
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(text) // a browser that has gone needs no answer
		})
	}
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /api/requests/{id}", s.request)
	mux.HandleFunc("GET /api/search", s.bounded(s.search))
	mux.HandleFunc("GET /api/tool", s.bounded(s.tool))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeFailure(w, &failure{http.StatusNotFound, codeNotFound, "there is nothing at " + r.URL.Path, "The page is at /."})
	})
	return mux, nil
}

// requestView is what is kept of one request.
type requestView struct {
	Request uint64                 `json:"request"`
	Records []messages.TraceRecord `json:"records"` // oldest first
}

func (s *Server) request(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || id == 0 {
		writeFailure(w, &failure{http.StatusBadRequest, codeBadRequest, fmt.Sprintf("%q is no request", r.PathValue("id")), "Use its number, such as 12."})
		return
	}
	records := s.hub.request(id)
	if len(records) == 0 {
		writeFailure(w, &failure{
			http.StatusNotFound, codeNotFound, fmt.Sprintf("nothing is known of request %d", id),
			fmt.Sprintf("The last %d records are kept, of the time while a page was open.", ringSize),
		})
		return
	}
	writeJSON(w, requestView{id, records})
}

// bounded gives a handler time of its own and a place among few, since a
// search may start servers.
func (s *Server) bounded(next func(context.Context, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.searches <- struct{}{}:
			defer func() { <-s.searches }()
		default:
			writeFailure(w, &failure{http.StatusServiceUnavailable, codeTooMany, fmt.Sprintf("%d searches run already", maxSearches), "Try again when they are over."})
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), searchTime)
		defer cancel()
		if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(searchTime + s.patience)); err != nil {
			writeFailure(w, err)
			return
		}
		answer, err := next(ctx, r)
		switch {
		case s.ctx.Err() != nil:
			writeFailure(w, ending)
		case err != nil:
			writeFailure(w, err)
		default:
			writeJSON(w, answer)
		}
	}
}

func (s *Server) search(ctx context.Context, r *http.Request) (any, error) {
	q := Query{Text: r.URL.Query().Get("q"), Server: r.URL.Query().Get("server")}
	if q.Text == "" || len(q.Text) > maxQuery || len(q.Server) > maxQuery {
		return nil, &failure{http.StatusBadRequest, codeBadRequest, fmt.Sprintf("the query has %d bytes", len(q.Text)), fmt.Sprintf("Use 1 to %d.", maxQuery)}
	}
	return s.o.Host.Search(ctx, q)
}

// toolView is one tool whole.
type toolView struct {
	Definition json.RawMessage `json:"definition"`
}

func (s *Server) tool(ctx context.Context, r *http.Request) (any, error) {
	server, tool := r.URL.Query().Get("server"), r.URL.Query().Get("tool")
	if server == "" || tool == "" || len(server) > maxQuery || len(tool) > maxQuery {
		return nil, &failure{http.StatusBadRequest, codeBadRequest, "server or tool is missing", "Name both."}
	}
	definition, err := s.o.Host.Tool(ctx, server, tool)
	if err != nil {
		return nil, err
	}
	return toolView{definition}, nil
}
