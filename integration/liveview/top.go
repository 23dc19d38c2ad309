package liveview

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/metamcp/metamcp/messages"
)

const (
	topEvery   = time.Second
	topRetry   = 500 * time.Millisecond
	topAskTime = 10 * time.Second
)

// TopSource is one attached host, such as a *control.Client. Its methods are
// called from one goroutine.
type TopSource interface {
	// Usage describes the host, with what processes take.
	Usage(ctx context.Context) (*messages.HostStatus, error)
	// Close is called once, after the last of all other calls.
	Close()
}

// TopOptions say what [RunTop] shows and where; see [Options].
type TopOptions struct {
	Name   string
	Source TopSource
	Again  func(ctx context.Context) (TopSource, error)
	// Sort is one of [TopSorts].
	Sort    string
	ASCII   bool
	Input   io.Reader
	Output  io.Writer
	Environ []string
}

// RunTop shows the servers of a host as a table, once a second, until the user
// quits or ctx ends.
func RunTop(ctx context.Context, o TopOptions) error {
	m := &topModel{model: model{name: clean(o.Name, maxName), ascii: o.ASCII, now: time.Now()}, sort: max(0, slices.Index(TopSorts(), o.Sort))}
	m.link = link{why: "attaching", at: m.now}
	settings := []tea.ProgramOption{tea.WithFPS(FramesPerSecond), tea.WithoutSignalHandler()}
	if o.Input != nil {
		settings = append(settings, tea.WithInput(o.Input))
	}
	if o.Output != nil {
		settings = append(settings, tea.WithOutput(o.Output))
	}
	if o.Environ != nil {
		settings = append(settings, tea.WithEnvironment(o.Environ))
	}
	program := tea.NewProgram(m, settings...)
	ctx, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		watchTop(ctx, &o, func(f topFrame) { program.Send(f) })
		program.Quit() // where nobody pressed q
	})
	_, err := program.Run()
	stop()
	asking.Wait()
	return err
}

// topFrame is what is new.
type topFrame struct {
	now    time.Time
	status *messages.HostStatus
	err    error
}

// watchTop asks the host, and looks for the next one once it has ended.
func watchTop(ctx context.Context, o *TopOptions, send func(topFrame)) {
	source := o.Source
	for {
		pause := topEvery
		if source == nil {
			next, err := o.Again(ctx)
			if err == nil {
				source = next
				continue
			}
			pause = topRetry
			send(topFrame{now: time.Now()})
		} else {
			asking, cancel := context.WithTimeout(ctx, topAskTime)
			st, err := source.Usage(asking)
			cancel()
			if ctx.Err() != nil {
				break
			}
			send(topFrame{now: time.Now(), status: st, err: err})
			if err != nil {
				source.Close()
				source = nil
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
			continue
		}
		break
	}
	if source != nil {
		source.Close()
	}
}

// topModel is the table. It borrows the header of the live view.
type topModel struct {
	model
	before  *messages.HostStatus
	rows    []TopRow
	sort    int
	reverse bool
	all     bool // servers that do nothing, too
	cursor  scroller
}

// Update implements [tea.Model].
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case topFrame:
		m.takeTop(msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.topKey(msg.String())
	}
	return m, nil
}

func (m *topModel) takeTop(f topFrame) {
	m.now = f.now
	switch {
	case f.err != nil:
		m.link = link{run: max(m.link.run, 1), why: "ended", at: f.now}
	case f.status != nil:
		m.link = link{live: true, run: 1, at: f.now}
		m.before, m.status, m.asOf = m.status, f.status, f.now
		m.refresh()
	}
}

// refresh makes the rows anew.
func (m *topModel) refresh() {
	if m.status == nil {
		return
	}
	m.rows = TopRows(m.before, m.status)
	if !m.all {
		m.rows = slices.DeleteFunc(m.rows, func(r TopRow) bool {
			return r.Instances == 0 && r.Calls == 0 && r.Restarts == 0 && (r.State == "" || r.State == "DISABLED")
		})
	}
	sortTop(m.rows, m.sort, m.reverse)
}

func (m *topModel) topKey(name string) tea.Cmd {
	switch name {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "a":
		m.all = !m.all
	case "R", "-":
		m.reverse = !m.reverse
	case "right", ">":
		m.sort, m.reverse = (m.sort+1)%len(topColumns), false
	case "left", "<":
		m.sort, m.reverse = (m.sort+len(topColumns)-1)%len(topColumns), false
	default:
		if i := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.key == name }); i >= 0 {
			m.sort, m.reverse = i, false
		} else if by := step(name, max(1, m.height-m.frame())); by != 0 {
			// What is at the end of a list is not followed here.
			m.cursor.move(0, uint64(len(m.rows)), by)
			m.cursor.loose = true
		}
	}
	m.refresh()
	return nil
}

// frame is how many lines are no rows.
func (m *topModel) frame() int {
	const around = 3 // an empty line, the head, the keys
	return len(m.header()) + around
}

// View implements [tea.Model].
func (m *topModel) View() tea.View {
	text := strings.Join(m.lines(), "\n")
	if m.ascii {
		text = strings.ReplaceAll(text, "…", "~") // where something was cut
	}
	v := tea.NewView(text)
	v.AltScreen = true
	v.WindowTitle = "metamcp top " + m.name
	return v
}

func (m *topModel) lines() []string {
	switch {
	case m.width < 1 || m.height < 1:
		return nil // the size is not known yet
	case m.width < leastWidth || m.height < leastHeight:
		return []string{cutTo(fmt.Sprintf("%dx%d is too small", m.width, m.height), m.width)}
	}
	lines := append(m.header(), "")
	cells := TopTable(m.rows)
	widths := make([]int, len(topColumns))
	for _, row := range cells {
		for i, cell := range row {
			widths[i] = max(widths[i], width(cell))
		}
	}
	room := max(1, m.height-m.frame())
	if !m.cursor.loose {
		m.cursor = scroller{loose: true} // at the top
	}
	from, to := m.cursor.window(0, uint64(len(m.rows)), room)
	lines = append(lines, m.tableLine(cells[0], widths, nil))
	for i := from; i < to; i++ {
		lines = append(lines, m.tableLine(cells[i+1], widths, &m.rows[i]))
	}
	if len(m.rows) == 0 && m.status != nil {
		lines = append(lines, lookFaint.paint(cutTo(fmt.Sprintf("none of %d servers runs or was called; a shows all", len(m.status.Servers)), m.width)))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	order := topColumns[m.sort].name
	if m.reverse {
		order += ", reversed"
	}
	keys := make([]string, len(topColumns))
	for i, c := range topColumns {
		keys[i] = c.key
	}
	foot := m.joined(m.width, part{"by " + order, lookCalm}, part{"q quit", lookFaint}, part{"< > sort", lookFaint}, part{strings.Join(keys, "") + " columns", lookFaint},
		part{"R reverse", lookFaint}, part{"a all", lookFaint}, part{strconv.Itoa(len(m.rows)) + " servers", lookFaint})
	return append(lines[:min(len(lines), m.height-1)], foot)
}

// tableLine is the head where row is nil.
func (m *topModel) tableLine(cells []string, widths []int, row *TopRow) string {
	var b strings.Builder
	at := 0
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-width(cell))
		text := pad + cell
		if topColumns[i].left {
			text = cell + pad
		}
		if i > 0 {
			text = "  " + text
		}
		if at+width(text) > m.width {
			break
		}
		at += width(text)
		style := lookPlain
		switch {
		case row == nil && i == m.sort:
			style = lookFocus
		case row == nil:
			style = lookBold
		case topColumns[i].name == "state":
			style = lookOf(strings.ToUpper(row.State))
			if row.State == "OPEN" {
				style = lookBad
			}
		case topColumns[i].name == "failed" && row.Failed > 0:
			style = lookWarn
		}
		b.WriteString(style.paint(m.plain(text)))
	}
	return b.String()
}
