package liveview

import (
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// prompt is a filter that is being typed.
type prompt struct {
	text string
	err  error
}

// far is more than any list is long.
const far = 1 << 30

// key does what a key asks for.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.prompt != nil:
		m.typed(k)
		return nil
	case name == "q":
		return tea.Quit
	case m.help:
		m.help = false // with any key
		return nil
	case name == "?":
		m.help = true
		return nil
	case m.opened != nil:
		m.openedKey(name)
		return nil
	}
	switch name {
	case "tab", "shift+tab":
		m.focus = paneActors + paneMessages - m.focus
	case "/":
		m.prompt = &prompt{text: m.query.text}
		if m.prompt.text != "" {
			m.prompt.text += " "
		}
	case "esc":
		m.setQuery(query{})
	case "p", "space":
		m.pause()
	case "enter":
		m.enter()
	default:
		m.scroll(step(name, m.page(m.focus)))
	}
	return nil
}

// step is how far a key moves a cursor; 0: it moves none.
func step(name string, page int) int {
	switch name {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup", "ctrl+b":
		return -page
	case "pgdown", "ctrl+f":
		return page
	case "home", "g":
		return -far
	case "end", "G":
		return far
	}
	return 0
}

func (m *model) scroll(by int) {
	if by == 0 {
		return
	}
	if m.focus == paneActors {
		m.tree.move(by)
		return
	}
	list := m.shown()
	m.stream.move(list.first, list.end(), by)
}

// enter opens a message, or shows only those of an actor.
func (m *model) enter() {
	if m.focus == paneMessages {
		if r := m.selected(); r != nil {
			m.open(r)
		}
		return
	}
	if id := m.tree.selected(); id != "" {
		if q, err := parseQuery(onActor(id)); err == nil {
			m.setQuery(q)
		}
	}
}

// typed is a key for the prompt.
func (m *model) typed(k tea.KeyPressMsg) {
	p := m.prompt
	switch k.String() {
	case "esc":
		m.prompt = nil
	case "enter":
		q, err := parseQuery(p.text)
		if err != nil {
			p.err = err
			return
		}
		m.prompt = nil
		m.focus = paneMessages
		m.setQuery(q)
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(p.text)
		p.text, p.err = p.text[:len(p.text)-size], nil
	case "ctrl+u":
		p.text, p.err = "", nil
	default:
		if len(p.text) < maxName {
			p.text, p.err = p.text+clean(k.Text, maxName), nil
		}
	}
}
