package main

import (
	"context"
	"log/slog"
)

// about keeps what is wrong with other servers than the one that a command is
// about from being logged; "": it is about all.
func (c *common) about(server string) { c.server = server }

// oneServer drops what is said of other servers.
type oneServer struct {
	name string
	next slog.Handler
}

func (h oneServer) isOther(a slog.Attr) bool {
	return a.Key == "server" && a.Value.String() != h.name
}

// Enabled implements slog.Handler.
func (h oneServer) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h oneServer) Handle(ctx context.Context, r slog.Record) error {
	other := false
	r.Attrs(func(a slog.Attr) bool {
		other = other || h.isOther(a)
		return !other
	})
	if other {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h oneServer) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if h.isOther(a) {
			return slog.DiscardHandler
		}
	}
	return oneServer{h.name, h.next.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h oneServer) WithGroup(name string) slog.Handler {
	return oneServer{h.name, h.next.WithGroup(name)}
}
