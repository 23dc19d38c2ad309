package liveview

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// TopRow is one server of a host, as [RunTop] and metamcp top show it.
type TopRow struct {
	Server    string `json:"server"`
	State     string `json:"state"`
	Instances int    `json:"instances"`
	InFlight  int    `json:"inFlight"`
	Calls     uint64 `json:"calls"`
	Failed    uint64 `json:"failed"`
	// Rate is calls a second between two looks.
	Rate float64 `json:"callsPerSecond"`
	P50  float64 `json:"p50Ms"`
	P99  float64 `json:"p99Ms"`
	// Memory and CPU are of all its processes; Measured is false where nobody
	// knows. CPU is in percent of one processor, between two looks.
	Measured  bool    `json:"measured"`
	Processes int     `json:"processes"`
	Memory    int64   `json:"memoryBytes"`
	CPU       float64 `json:"cpuPercent"`
	// Restarts are the starts beyond those of the processes that live.
	Restarts uint64 `json:"restarts"`
}

// TopRows are the rows of a status; before is an earlier one of the same host,
// nil for none.
func TopRows(before, now *messages.HostStatus) []TopRow {
	earlier := map[string]*messages.HostServer{}
	var span time.Duration
	if before != nil && before.PID == now.PID && before.Started.Equal(now.Started) {
		span = now.At.Sub(before.At)
		for i := range before.Servers {
			earlier[before.Servers[i].Name] = &before.Servers[i]
		}
	}
	rows := make([]TopRow, 0, len(now.Servers))
	for i := range now.Servers {
		s := &now.Servers[i]
		r := TopRow{
			Server: s.Name, State: s.State, Instances: s.Living(), Calls: s.Calls.Total, Failed: s.Calls.Failed, P50: s.Calls.P50, P99: s.Calls.P99,
		}
		switch {
		case s.Disabled:
			r.State = "DISABLED"
		case s.Breaker == "open":
			r.State = "OPEN"
		case r.Instances == 0 && s.State == "IDLE":
			r.State = ""
		}
		for _, in := range s.Instances {
			r.InFlight += in.InFlight
		}
		if alive := uint64(max(len(s.Instances), 1)); s.Counts.Spawns > alive {
			r.Restarts = s.Counts.Spawns - alive
		}
		if s.Usage != nil {
			r.Measured, r.Processes, r.Memory = true, s.Usage.Processes, s.Usage.Memory
		}
		if old := earlier[s.Name]; old != nil && span > 0 {
			if s.Calls.Total >= old.Calls.Total {
				r.Rate = float64(s.Calls.Total-old.Calls.Total) / span.Seconds()
			}
			if s.Usage != nil && old.Usage != nil {
				// One of its processes may have ended meanwhile.
				const percent = 100
				r.CPU = max(0, percent*float64(s.Usage.CPU-old.Usage.CPU)/float64(span.Milliseconds()+1))
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// topColumn is one column of the table.
type topColumn struct {
	key     string // that sorts by it
	name    string // of --sort, and in lower case of the head
	left    bool
	text    func(r *TopRow) string
	compare func(a, b *TopRow) int // what people look for comes first
}

func down[T cmp.Ordered](of func(r *TopRow) T) func(a, b *TopRow) int {
	return func(a, b *TopRow) int { return cmp.Compare(of(b), of(a)) }
}

var topColumns = []topColumn{
	{"n", "server", true, func(r *TopRow) string { return clean(r.Server, maxName) }, func(a, b *TopRow) int { return strings.Compare(a.Server, b.Server) }},
	{"t", "state", true, func(r *TopRow) string { return strings.ToLower(clean(cmp.Or(r.State, "-"), maxName)) }, down(func(r *TopRow) string { return r.State })},
	{"i", "instances", false, func(r *TopRow) string { return strconv.Itoa(r.Instances) }, down(func(r *TopRow) int { return r.Instances })},
	{"c", "calls", false, func(r *TopRow) string { return strconv.FormatUint(r.Calls, 10) }, down(func(r *TopRow) uint64 { return r.Calls })},
	{"f", "failed", false, func(r *TopRow) string { return strconv.FormatUint(r.Failed, 10) }, down(func(r *TopRow) uint64 { return r.Failed })},
	{"r", "calls/s", false, func(r *TopRow) string { return strconv.FormatFloat(r.Rate, 'f', 1, 64) }, down(func(r *TopRow) float64 { return r.Rate })},
	{"l", "p50", false, func(r *TopRow) string { return r.milliseconds(r.P50) }, down(func(r *TopRow) float64 { return r.P50 })},
	{"p", "p99", false, func(r *TopRow) string { return r.milliseconds(r.P99) }, down(func(r *TopRow) float64 { return r.P99 })},
	{"m", "memory", false, func(r *TopRow) string { return r.memory() }, down(func(r *TopRow) int64 { return r.Memory })},
	{"u", "cpu", false, func(r *TopRow) string { return r.cpu() }, down(func(r *TopRow) float64 { return r.CPU })},
	{"s", "restarts", false, func(r *TopRow) string { return strconv.FormatUint(r.Restarts, 10) }, down(func(r *TopRow) uint64 { return r.Restarts })},
}

func (r *TopRow) milliseconds(ms float64) string {
	switch {
	case r.Calls == 0:
		return "-"
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 2, 64) + "ms"
	case ms < 10_000:
		return strconv.FormatFloat(ms, 'f', 0, 64) + "ms"
	}
	return strconv.FormatFloat(ms/1000, 'f', 1, 64) + "s"
}

func (r *TopRow) memory() string {
	if !r.Measured {
		return "-"
	}
	const mega, giga = 1 << 20, 1 << 30
	if r.Memory < giga {
		return fmt.Sprintf("%.1fM", float64(r.Memory)/mega)
	}
	return fmt.Sprintf("%.2fG", float64(r.Memory)/giga)
}

func (r *TopRow) cpu() string {
	if !r.Measured {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", r.CPU)
}

// TopSorts are the names that [SortTop] takes.
func TopSorts() []string {
	names := make([]string, len(topColumns))
	for i, c := range topColumns {
		names[i] = c.name
	}
	return names
}

// SortTop sorts rows by a column, which [TopSorts] names: numbers with the
// largest first, servers by name. It returns false where there is no such column.
func SortTop(rows []TopRow, column string) bool {
	i := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.name == column })
	if i < 0 {
		return false
	}
	sortTop(rows, i, false)
	return true
}

func sortTop(rows []TopRow, column int, reverse bool) {
	slices.SortStableFunc(rows, func(a, b TopRow) int {
		c := topColumns[column].compare(&a, &b)
		if reverse {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.Server, b.Server))
	})
}

// TopTable are the cells of a table of rows, the head first.
func TopTable(rows []TopRow) [][]string {
	cells := make([][]string, 0, len(rows)+1)
	head := make([]string, len(topColumns))
	for i, c := range topColumns {
		head[i] = strings.ToUpper(c.name)
	}
	cells = append(cells, head)
	for i := range rows {
		row := make([]string, len(topColumns))
		for k, c := range topColumns {
			row[k] = c.text(&rows[i])
		}
		cells = append(cells, row)
	}
	return cells
}
