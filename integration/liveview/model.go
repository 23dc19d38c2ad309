package liveview

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/metamcp/metamcp/messages"
)

// pane is a part of the screen that takes keys.
type pane int

const (
	paneActors pane = iota
	paneMessages
)

// model is everything that is shown. Its methods belong to the goroutine of
// bubbletea; nothing in it waits for anything or asks for the time.
type model struct {
	name          string
	ascii         bool
	now           time.Time
	width, height int

	link   link
	status *messages.HostStatus
	asOf   time.Time // when status came
	// dropped counts records that the host or this viewer had no room for.
	dropped  uint64
	seen     uint64 // records that came
	rate     int    // of them in the last whole second
	rateFrom uint64
	rateAt   time.Time

	records ring
	query   query
	fitting ring // of records, those that fit query; unused where all do
	paused  bool
	held    ring // what came since the pause began

	focus  pane
	tree   tree
	stream scroller // over the records that are shown
	prompt *prompt  // nil: no filter is being typed
	opened *opened  // nil: no request is open
	help   bool
}

// scroller is a cursor in a list, and what of the list is on the screen.
type scroller struct {
	cursor uint64
	top    uint64 // the first line on the screen
	loose  bool   // the cursor stays where it is, and does not go on with the newest
}

func newModel(name, filter string, ascii bool, now time.Time) (*model, error) {
	q, err := parseQuery(filter)
	if err != nil {
		return nil, err
	}
	return &model{
		name: clean(name, maxName), ascii: ascii, now: now, query: q, focus: paneMessages,
		link: link{why: "attaching", at: now}, rateAt: now,
	}, nil
}

// Init implements [tea.Model].
func (m *model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case frame:
		m.take(msg)
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		if m.opened != nil {
			m.opened.draw(m.width, m.ascii)
		}
	case tea.PasteMsg:
		if m.prompt != nil {
			m.prompt.text += clean(msg.Content, maxName)
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	return m, nil
}

func (m *model) take(f frame) {
	m.now = f.now
	if f.link != nil {
		if f.link.live {
			m.status, m.tree = nil, tree{}
		}
		m.link = *f.link
	}
	if f.status != nil {
		m.status, m.asOf = f.status, f.now
		m.tree.update(f.status)
	}
	m.dropped += f.skipped
	m.seen += uint64(len(f.records)) + f.skipped
	if d := f.now.Sub(m.rateAt); d >= time.Second {
		m.rate = int(float64(m.seen-m.rateFrom) / d.Seconds())
		m.rateAt, m.rateFrom = f.now, m.seen
	}
	for i := range f.records {
		m.record(&f.records[i])
	}
	if m.opened != nil {
		m.opened.refresh(m.now, m.width, m.ascii)
	}
}

func (m *model) record(r *record) {
	if r.Kind == messages.TraceDropped {
		m.dropped += r.Count
	}
	m.tree.record(&r.TraceRecord)
	if m.opened != nil {
		m.opened.add(r)
	}
	if m.paused {
		m.held.push(*r)
		return
	}
	m.show(r)
}

func (m *model) show(r *record) {
	m.records.push(*r)
	if !m.query.all() && m.query.wants(&r.TraceRecord) {
		m.fitting.push(*r)
	}
}

// shown are the records that fit the filter.
func (m *model) shown() *ring {
	if m.query.all() {
		return &m.records
	}
	return &m.fitting
}

func (m *model) setQuery(q query) {
	m.query, m.fitting, m.stream = q, ring{}, scroller{}
	if q.all() {
		return
	}
	for r := range m.records.all {
		if q.wants(&r.TraceRecord) {
			m.fitting.push(*r)
		}
	}
}

// pause freezes the messages, or shows those that came since.
func (m *model) pause() {
	m.paused = !m.paused
	if m.paused {
		return
	}
	for r := range m.held.all {
		m.show(r)
	}
	m.held = ring{}
}

// selected is the record under the cursor; nil where there is none.
func (m *model) selected() *record {
	list := m.shown()
	if list.end() == list.first {
		return nil
	}
	return list.at(m.stream.place(list.first, list.end()))
}

// place is where the cursor is in a list of so many.
func (s *scroller) place(first, end uint64) uint64 {
	if end == first {
		return first
	}
	if !s.loose {
		return end - 1
	}
	return min(max(s.cursor, first), end-1)
}

// move moves the cursor, and lets it go with the newest from the end on.
func (s *scroller) move(first, end uint64, by int) {
	if end == first {
		return
	}
	at := int64(s.place(first, end)-first) + int64(by)
	at = min(max(at, 0), int64(end-first)-1)
	s.cursor = first + uint64(at)
	s.loose = s.cursor != end-1
}

// window returns what of a list is on so many lines, with the cursor among it.
func (s *scroller) window(first, end uint64, lines int) (from, to uint64) {
	rows := uint64(max(lines, 0))
	if end-first <= rows {
		s.top = first
		return first, end
	}
	at := s.place(first, end)
	s.top = min(max(s.top, first), at)
	if at >= s.top+rows {
		s.top = at - rows + 1
	}
	s.top = min(s.top, end-rows)
	return s.top, min(s.top+rows, end)
}
