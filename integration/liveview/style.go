package liveview

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// look is how a text looks. Its colours are the terminal's own sixteen, so that
// they fit a light background as well as a dark one.
type look int

const (
	lookPlain look = iota
	lookFaint
	lookBold
	lookGood
	lookWarn
	lookBad
	lookCalm
	lookChosen
	lookFocus
)

var looks = map[look]lipgloss.Style{
	lookPlain:  lipgloss.NewStyle(),
	lookFaint:  lipgloss.NewStyle().Faint(true),
	lookBold:   lipgloss.NewStyle().Bold(true),
	lookGood:   lipgloss.NewStyle().Foreground(lipgloss.Green),
	lookWarn:   lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	lookBad:    lipgloss.NewStyle().Foreground(lipgloss.Red),
	lookCalm:   lipgloss.NewStyle().Foreground(lipgloss.Cyan),
	lookChosen: lipgloss.NewStyle().Reverse(true),
	lookFocus:  lipgloss.NewStyle().Foreground(lipgloss.Cyan).Bold(true),
}

// paint gives a text its look. Where there are no colours, bubbletea takes them
// out again.
func (l look) paint(text string) string {
	if l == lookPlain || text == "" {
		return text
	}
	return looks[l].Render(text)
}

// lookOf is the look of a connection's or a breaker's state.
func lookOf(state string) look {
	switch state {
	case "ACTIVE":
		return lookGood
	case "CONNECTING", "half-open":
		return lookWarn
	case "FAILED", "open":
		return lookBad
	case "IDLE":
		return lookCalm
	case "closed", "CLOSED":
		return lookFaint
	}
	return lookPlain
}

// age is a duration for people, in its two largest units.
func age(d time.Duration) string {
	s := int64(max(0, d) / time.Second)
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	switch {
	case s < minute:
		return fmt.Sprintf("%ds", s)
	case s < hour:
		return fmt.Sprintf("%dm%ds", s/minute, s%minute)
	case s < day:
		return fmt.Sprintf("%dh%dm", s/hour, s%hour/minute)
	}
	return fmt.Sprintf("%dd%dh", s/day, s%day/hour)
}

var asciiWords = strings.NewReplacer("→", ">", "µ", "u", "…", "~", "·", "-")

// plain is a text in the characters that may be used; it stays as wide as long
// as they are one column wide.
func (m *model) plain(text string) string {
	if !m.ascii {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, asciiWords.Replace(text))
}
