package liveview

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// part is a piece of a line, with what it looks like.
type part struct {
	text string
	look look
}

// gap is the columns between two parts.
const gap = 2

// joined are the parts that fit in so many columns, the first ones first.
func (m *model) joined(room int, parts ...part) string {
	var b strings.Builder
	at := 0
	for _, p := range parts {
		text := m.plain(p.text)
		if text == "" {
			continue
		}
		need := width(text)
		if at > 0 {
			need += gap
		}
		if at+need > room {
			if at == 0 {
				text = cutTo(text, room)
				b.WriteString(p.look.paint(text))
				at = width(text)
			}
			continue // a shorter one may still fit
		}
		if at > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		b.WriteString(p.look.paint(text))
		at += need
	}
	return b.String() + strings.Repeat(" ", max(0, room-at))
}

// header tells who is watched, and how busy it is.
func (m *model) header() []string {
	return []string{m.titleLine(), m.callsLine(), m.poolLine()}
}

func (m *model) titleLine() string {
	parts := []part{{m.name, lookBold}, m.linkPart(m.width - width(m.name) - gap)}
	if st := m.status; st != nil {
		if st.Draining {
			parts = append(parts, part{"draining", lookWarn})
		}
		if m.link.live {
			parts = append(parts, part{"up " + age(m.now.Sub(st.Started)), lookPlain})
		}
		parts = append(parts, part{"pid " + strconv.Itoa(st.PID), lookPlain}, part{"metamcp " + clean(st.Version, maxName), lookFaint})
	}
	return m.joined(m.width, parts...)
}

// staleAfter is how old a status may be before it is said that it is old.
const staleAfter = 5 * time.Second

// linkPart says in so many columns whether a host is attached. Of a long reason its
// beginning is shown: a part that does not fit would be left out.
func (m *model) linkPart(room int) part {
	switch {
	case !m.link.live && m.link.run == 0:
		return part{cutTo("attaching"+because(m.link.why, "attaching"), room), lookWarn}
	case !m.link.live:
		since := " " + age(m.now.Sub(m.link.at)) + " ago; waiting for it to come back"
		return part{cutTo(cutTo(m.link.why, room-width(since))+since, room), lookBad}
	case m.status == nil:
		return part{"attached", lookGood}
	case m.now.Sub(m.asOf) > staleAfter:
		return part{"no status since " + age(m.now.Sub(m.asOf)), lookWarn}
	}
	return part{"live", lookGood}
}

func because(why, unless string) string {
	if why == "" || why == unless {
		return ""
	}
	return ": " + why
}

func (m *model) callsLine() string {
	dropped := part{"dropped " + strconv.FormatUint(m.dropped, 10), lookFaint}
	if m.dropped > 0 {
		dropped.look = lookBad
	}
	seen := part{fmt.Sprintf("records %d, %d/s", m.seen, m.rate), lookFaint}
	if m.status == nil {
		return m.joined(m.width, part{"calls -", lookFaint}, dropped, seen)
	}
	c := m.status.Calls
	failed := part{fmt.Sprintf("%d failed", c.Failed), lookFaint}
	if c.Failed > 0 {
		failed.look = lookBad
	}
	return m.joined(m.width,
		part{fmt.Sprintf("calls %d in flight", c.InFlight), lookPlain}, part{fmt.Sprintf("%d total", c.Total), lookPlain}, failed,
		dropped, part{"sessions " + strconv.Itoa(m.status.Sessions), lookFaint}, seen)
}

// poolLine shows the places: taken and busy, taken and idle, free.
func (m *model) poolLine() string {
	if m.status == nil {
		return m.joined(m.width, part{"pool  -", lookFaint})
	}
	p := m.status.Pool
	const head = "pool  "
	bar, cells := m.bar(&p, min(max(m.width/4, 8), 40))
	waiters := part{fmt.Sprintf("waiters %d", p.Waiters), lookFaint}
	if p.Waiters > 0 {
		waiters.look = lookWarn
	}
	reserve := part{look: lookFaint}
	if p.Reserve > 0 {
		reserve.text = fmt.Sprintf("reserve %d/%d", p.ReserveUsed, p.Reserve)
	}
	return head + bar + "  " + m.joined(m.width-len(head)-cells-2,
		part{fmt.Sprintf("%d/%d", p.Used, p.Size), lookPlain}, waiters,
		part{fmt.Sprintf("evicted %d", p.Evictions), lookFaint}, part{fmt.Sprintf("idle %d", p.Idle), lookFaint}, reserve)
}

// bar is one cell for each place, or for several where there are many.
func (m *model) bar(p *messages.PoolStatus, most int) (text string, cells int) {
	cells = min(max(p.Size, 1), most)
	part := func(n int) int { // rounded up: one place in use is seen
		if p.Size <= 0 || n <= 0 {
			return 0
		}
		return min(int(math.Ceil(min(float64(n)/float64(p.Size), 1)*float64(cells))), cells)
	}
	taken := part(p.Used)
	busy := min(part(p.Used-p.Idle), taken)
	glyphs := [3]string{"█", "▒", "░"}
	if m.ascii {
		glyphs = [3]string{"#", "+", "."}
	}
	return lookGood.paint(strings.Repeat(glyphs[0], busy)) + lookCalm.paint(strings.Repeat(glyphs[1], taken-busy)) +
		lookFaint.paint(strings.Repeat(glyphs[2], cells-taken)), cells
}
