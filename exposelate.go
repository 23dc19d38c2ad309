package metamcp

import (
	"slices"
	"strconv"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/supervision"
)

// late are the servers that were asked for what they have, and have not answered yet: those
// that were contacted, those that are to list tools that they announced, and those whose
// lists of these kinds are being read for the first time.
func (x *exposure) late(kinds ...listKind) []string {
	var late []string
	x.e.core.Directory().Each(func(entry *supervision.Entry) {
		spec := entry.Spec()
		if !spec.Disabled && spec.Err == nil && (x.awaited(askedKey(entry)) || x.lists.awaited(spec.Name, kinds)) {
			late = append(late, spec.Name)
		}
	})
	slices.Sort(late)
	return late
}

// awaited says whether a server has yet to answer that it was contacted for a list.
func (x *exposure) awaited(key string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, behind := x.behind[key]; behind {
		return true
	}
	a := x.asked[key]
	if a == nil {
		return false
	}
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// awaited says whether one of these lists of a server is being read, and was not before.
func (l *childLists) awaited(server string, kinds []listKind) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(kinds, func(kind listKind) bool {
		c := l.lists[listKey{server, kind}]
		return c != nil && !c.read && c.reading != nil
	})
}

// unlessLate is err, which says that nobody has what was asked for; where servers are late,
// it says that one of them may have it.
func unlessLate(err *Error, late []string) *Error {
	if len(late) == 0 {
		return err
	}
	const most = 5
	who := actors.Quoted(late[:min(most, len(late))])
	if more := len(late) - most; more > 0 {
		who += " and " + strconv.Itoa(more) + " more"
	}
	err.Retryable = true
	err.Message += "; servers that have not answered yet: " + who
	err.Hint = "One of those may have it: send the request again in some seconds. " + err.Hint
	return err
}
