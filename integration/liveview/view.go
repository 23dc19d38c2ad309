package liveview

import (
	"fmt"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
)

const (
	// leastWidth and leastHeight are the smallest window in which anything can
	// be told from anything else.
	leastWidth  = 30
	leastHeight = 9
	// sideBySide is the width from which the panes stand beside each other.
	sideBySide    = 110
	headerLines   = 3
	titleLines    = 1
	footerLines   = 1
	stateColumn   = 14
	mailboxColumn = 7
	manyMessages  = 999_999 // in a mailbox; more are shown as such
)

// layout is where the panes are.
type layout struct {
	beside                  bool
	treeWidth, treeRows     int
	streamWidth, streamRows int
}

func (m *model) layout() layout {
	body := m.height - headerLines - footerLines
	if m.width >= sideBySide {
		l := layout{beside: true, treeWidth: min(max(m.width/3, 44), 64), treeRows: body - titleLines}
		l.streamWidth, l.streamRows = m.width-l.treeWidth-1, l.treeRows
		return l
	}
	rows := body - 2*titleLines
	tree := min(max(len(m.tree.lines()), 2), max(2, rows*2/5))
	return layout{treeWidth: m.width, streamWidth: m.width, treeRows: tree, streamRows: rows - tree}
}

// page is how far a page key moves in a pane.
func (m *model) page(p pane) int {
	l := m.layout()
	if p == paneActors {
		return max(1, l.treeRows-1)
	}
	return max(1, l.streamRows-1)
}

// View implements [tea.Model].
func (m *model) View() tea.View {
	text := strings.Join(m.lines(), "\n")
	if m.ascii {
		text = strings.ReplaceAll(text, "…", "~") // where something was cut
	}
	v := tea.NewView(text)
	v.AltScreen = true
	v.WindowTitle = "metamcp trace " + m.name
	return v
}

// lines are the whole screen.
func (m *model) lines() []string {
	switch {
	case m.width < 1 || m.height < 1:
		return nil // the size is not known yet
	case m.width < leastWidth || m.height < leastHeight:
		return []string{cutTo(fmt.Sprintf("%dx%d is too small", m.width, m.height), m.width)}
	case m.help:
		return m.helpLines()
	case m.opened != nil:
		return m.openedLines()
	}
	l := m.layout()
	lines := m.header()
	tree, stream := m.treeLines(l), m.streamLines(l)
	if l.beside {
		between := lookFaint.paint("│")
		if m.ascii {
			between = lookFaint.paint("|")
		}
		for i := range tree {
			lines = append(lines, tree[i]+between+stream[i])
		}
	} else {
		lines = append(append(lines, tree...), stream...)
	}
	return append(lines, m.footer())
}

// title is the line above a pane.
func (m *model) title(text, right string, room int, focused bool) string {
	line, look := "─", lookFaint
	if focused {
		line, look = "━", lookFocus
	}
	if m.ascii {
		if line = "-"; focused {
			line = "="
		}
	}
	text = m.plain(cutTo(" "+text+" ", room-2))
	if right != "" {
		right = " " + right + " "
	}
	fill := room - 1 - width(text) - width(right)
	if fill < 1 {
		right, fill = "", max(0, room-1-width(text))
	}
	return look.paint(line + text + strings.Repeat(line, fill) + right)
}

func (m *model) treeLines(l layout) []string {
	rows := m.tree.lines()
	lines := []string{m.title("actors "+strconv.Itoa(len(rows)), "state          mailbox", l.treeWidth, m.focus == paneActors)}
	if len(rows) == 0 {
		lines = append(lines, lookFaint.paint(fit(" not known yet", l.treeWidth)))
	}
	from, to := m.tree.scroller.window(0, uint64(len(rows)), l.treeRows)
	chosen := m.tree.selected()
	for i := range rows[from:to] {
		a := &rows[int(from)+i]
		lines = append(lines, m.actorLine(a, l.treeWidth, m.focus == paneActors && a.id == chosen))
	}
	return filled(lines, l.treeRows+titleLines, l.treeWidth)
}

func (m *model) actorLine(a *actor, room int, chosen bool) string {
	state, look := m.tree.state(a.id, m.now)
	box := " "
	if n, known := m.tree.mailbox[a.id]; known {
		box = strconv.Itoa(min(max(n, 0), manyMessages))
		if n > manyMessages {
			box += "+"
		}
	}
	mark := " "
	if chosen {
		mark = ">"
	}
	name := fit(m.plain(mark+m.branch(a)+a.label), room-stateColumn-mailboxColumn-2)
	state = " " + fit(m.plain(state), stateColumn)
	box = strings.Repeat(" ", max(0, mailboxColumn-len(box))) + box + " "
	if chosen {
		return lookChosen.paint(name + state + box)
	}
	boxLook := lookFaint
	if m.tree.mailbox[a.id] > 0 {
		boxLook = lookWarn
	}
	return name + look.paint(state) + boxLook.paint(box)
}

// branch are the lines that lead to an actor.
func (m *model) branch(a *actor) string {
	if a.depth == 0 {
		return ""
	}
	glyphs := [4]string{"├ ", "└ ", "│ ", "  "}
	if m.ascii {
		glyphs = [4]string{"+ ", "` ", "| ", "  "}
	}
	var b strings.Builder
	for _, more := range a.more[1:] { // the root has no siblings
		if more {
			b.WriteString(glyphs[2])
		} else {
			b.WriteString(glyphs[3])
		}
	}
	if a.last {
		b.WriteString(glyphs[1])
	} else {
		b.WriteString(glyphs[0])
	}
	return b.String()
}

func (m *model) streamLines(l layout) []string {
	list := m.shown()
	text := "messages"
	if !m.query.all() {
		text += " · " + clean(m.query.text, maxName)
	}
	if m.paused {
		text += " · paused, +" + strconv.FormatUint(m.held.end(), 10)
	}
	first, end := list.first, list.end()
	lines := []string{m.title(text, fmt.Sprintf("%d kept", end-first), l.streamWidth, m.focus == paneMessages)}
	if first == end {
		lines = append(lines, lookFaint.paint(fit(m.nothing(), l.streamWidth)))
	}
	from, to := m.stream.window(first, end, l.streamRows)
	visible := make([]*record, 0, to-from)
	for n := from; n < to; n++ {
		visible = append(visible, list.at(n))
	}
	c := columnsFor(l.streamWidth, m.ascii, visible)
	at := m.stream.place(first, end)
	for i, r := range visible {
		lines = append(lines, m.line(r, c, l.streamWidth, m.focus == paneMessages && from+uint64(i) == at))
	}
	return filled(lines, l.streamRows+titleLines, l.streamWidth)
}

// nothing says why no message is shown.
func (m *model) nothing() string {
	if m.query.all() {
		return " no message yet"
	}
	return fmt.Sprintf(" none of the %d that are kept fits the filter; esc shows all", m.records.end()-m.records.first)
}

// filled adds empty lines, or takes away what is too much.
func filled(lines []string, rows, room int) []string {
	for len(lines) < rows {
		lines = append(lines, strings.Repeat(" ", room))
	}
	return lines[:max(rows, 0)]
}

// footer is the prompt, or which keys there are.
func (m *model) footer() string {
	if p := m.prompt; p != nil {
		if p.err != nil {
			return lookBad.paint(fit(m.plain(p.err.Error()), m.width))
		}
		const head, cursor = "filter: ", "_"
		text := p.text
		for width(text) > m.width-len(head)-len(cursor) {
			_, text = cutFirst(text)
		}
		text = head + text + cursor
		hint := "  server= actor= type= request= errors, or words"
		if width(text+hint) > m.width {
			hint = ""
		}
		return m.plain(text) + lookFaint.paint(fit(hint, m.width-width(text)))
	}
	pause := "p pause"
	if m.paused {
		pause = "p go on"
	}
	enter := "enter open"
	if m.focus == paneActors {
		enter = "enter filter"
	}
	arrows := "↑↓ scroll"
	if m.ascii {
		arrows = "arrows scroll"
	}
	all := ""
	if !m.query.all() {
		all = "esc all"
	}
	f := lookFaint
	return m.joined(m.width, part{"q quit", f}, part{"? help", f}, part{"tab pane", f}, part{"/ filter", f}, part{all, f}, part{pause, f}, part{enter, f}, part{arrows, f})
}

func cutFirst(text string) (first, rest string) {
	for i := range text {
		if i > 0 {
			return text[:i], text[i:]
		}
	}
	return text, ""
}
