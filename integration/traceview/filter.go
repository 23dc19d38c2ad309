package traceview

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// Filter chooses requests, and records of them. An empty member chooses all.
type Filter struct {
	Server  string    // its name, or a glob such as git*; case does not matter; a script fits if one of its calls does
	Actor   string    // a part of the path of a sender or receiver, or a glob for all of it; * stops at no slash
	Type    string    // of a message, or the kind of an event; a glob too
	Request string    // as [Trace.Find] takes it; an id alone is that of every run
	Errors  bool      // only what failed
	Since   time.Time // requests that were not over before
	Until   time.Time // requests that began before
}

// Select returns the requests that fit.
func (t *Trace) Select(f Filter) []*Request {
	var chosen []*Request
	for _, r := range t.Requests {
		if f.Fits(r) {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

// Fits tells whether a request fits: of actor and type, one record must fit
// both.
func (f Filter) Fits(r *Request) bool {
	id := strings.TrimPrefix(f.Request, "#")
	switch {
	case f.Errors && !r.Failed,
		f.Server != "" && !r.wentTo(f.Server),
		id != "" && id != r.Name && id != fmt.Sprint(r.ID),
		!f.Since.IsZero() && r.Start.Add(r.Duration).Before(f.Since),
		!f.Until.IsZero() && r.Start.After(f.Until):
		return false
	}
	if f.Actor == "" && f.Type == "" {
		return true
	}
	for _, rec := range r.Records {
		if f.record(rec) {
			return true
		}
	}
	return false
}

// Narrow returns the request with only those records that fit actor and type;
// the request itself where all do. What it says of the whole stays.
func (f Filter) Narrow(r *Request) *Request {
	if f.Actor == "" && f.Type == "" {
		return r
	}
	narrow := *r
	narrow.Records, narrow.Hops, narrow.Slowest = nil, nil, -1
	for _, rec := range r.Records {
		if f.record(rec) {
			narrow.Records = append(narrow.Records, rec)
		}
	}
	for i, h := range r.Hops {
		if !f.record(h.Record) {
			continue
		}
		if i == r.Slowest {
			narrow.Slowest = len(narrow.Hops)
		}
		narrow.Hops = append(narrow.Hops, h)
	}
	return &narrow
}

func (f Filter) record(r *Record) bool {
	if f.Actor != "" && !actorFits(f.Actor, r.To) && (r.From == "" || !actorFits(f.Actor, r.From)) {
		return false
	}
	return f.Type == "" || r.Type != "" && globFold(f.Type, r.Type) || globFold(f.Type, r.Kind)
}

func actorFits(pattern, actor string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return strings.Contains(strings.ToLower(actor), strings.ToLower(pattern))
	}
	// In a path a * of path.Match would stop at each slash.
	const slash = "\x00"
	return globFold(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(actor, "/", slash))
}

// globFold matches a whole text with a glob; a pattern that is none, as a name
// with a bracket, matches itself.
func globFold(pattern, text string) bool {
	pattern, text = strings.ToLower(pattern), strings.ToLower(text)
	if pattern == text {
		return true
	}
	ok, err := path.Match(pattern, text)
	return ok && err == nil
}

// ParseTime reads a moment: RFC 3339, "2006-01-02 15:04:05" or "15:04:05" in
// local time, the latter on the day of the trace's end, or a duration such as
// 90s or 5m, which counts back from the end of the trace.
func (t *Trace) ParseTime(text string) (time.Time, error) {
	end := t.End()
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return end.Add(-d), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			day := end.Local()
			return time.Date(day.Year(), day.Month(), day.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.Local), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: use a duration such as 90s or 5m back from the trace's end, 15:04:05, or 2006-01-02T15:04:05Z", text)
}

// Begin is the time of the earliest record; zero without records.
func (t *Trace) Begin() time.Time {
	var begin time.Time
	for _, r := range t.Records {
		if begin.IsZero() || r.Time.Before(begin) {
			begin = r.Time
		}
	}
	return begin
}

// End is when the last that a record tells was over; zero without records.
func (t *Trace) End() time.Time {
	var end time.Time
	for _, r := range t.Records {
		if r.end().After(end) {
			end = r.end()
		}
	}
	return end
}
