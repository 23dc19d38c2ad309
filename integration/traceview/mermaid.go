package traceview

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteMermaid writes one request as a sequenceDiagram of Mermaid.
func WriteMermaid(out io.Writer, r *Request) error {
	w := bufio.NewWriter(out)
	actors := actorsOf(r.Records)
	short := shortNames(actors)
	ids := make(map[string]string, len(actors))
	fmt.Fprintln(w, "sequenceDiagram")
	for i, a := range actors {
		ids[a] = fmt.Sprintf("a%d", i)
		fmt.Fprintf(w, "    participant %s as %s\n", ids[a], mermaidText(short[a]))
	}
	for _, rec := range r.Records {
		if !rec.Message() {
			fmt.Fprintf(w, "    Note over %s: %s\n", ids[rec.To], mermaidText(eventText(rec)))
			continue
		}
		arrow := "->>"
		if rec.Outcome != "" {
			arrow = "-x" // the head of a message that was lost
		}
		text := fmt.Sprintf("%s (wait %s, ran %s)", rec.Type, Duration(time.Duration(rec.WaitNs)), Duration(time.Duration(rec.RanNs)))
		if rec.Outcome != "" {
			text += " " + rec.Outcome
		}
		if rec.Before != rec.After {
			text += fmt.Sprintf(" [%s → %s]", rec.Before, rec.After)
		}
		fmt.Fprintf(w, "    %s%s%s: %s\n", ids[rec.From], arrow, ids[rec.To], mermaidText(text))
	}
	return w.Flush()
}

// mermaidText writes everything that Mermaid, or the page that it stands in,
// may read as syntax as the number of the character.
func mermaidText(text string) string {
	const plain = " _-./,()→µ…·~"
	var b strings.Builder
	words := strings.FieldsFunc(text, func(r rune) bool { return !asciiLetter(r) })
	keyword := false
	for _, word := range words {
		keyword = keyword || strings.EqualFold(word, "end")
	}
	for i, r := range text {
		switch {
		case keyword && i+3 <= len(text) && strings.EqualFold(text[i:i+3], "end"):
			fmt.Fprintf(&b, "#%d;", r)
		case asciiLetter(r), r >= '0' && r <= '9', strings.ContainsRune(plain, r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	if b.Len() == 0 {
		return "#32;" // an empty text would be an error
	}
	return b.String()
}

func asciiLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
