package metamcp

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// Carried implements front.Passed.
func (p *passed) Carried(server string, result json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	strings := 0
	for rest := result; strings < maxNamed; strings++ {
		uri, behind, found := nextString(rest, uriKey)
		if !found {
			break
		}
		p.links.add(uri, server)
		rest = behind
	}
	if bytes.Contains(result, []byte(`"taskId"`)) && stringOf(result, "resultType") == "task" {
		id := stringOf(result, "taskId")
		if id == "" {
			id = stringOf(jsonrpc.Get(result, "task"), "taskId")
		}
		p.tasks.add(id, server)
	}
}

var uriKey = []byte(`"uri"`)

// nextString finds the next member with this key, at any depth, that is a string.
// The key with its quotes stands nowhere else: inside of strings quotes are
// escaped.
func nextString(text, key []byte) (value string, behind []byte, found bool) {
	for {
		_, after, ok := bytes.Cut(text, key)
		if !ok {
			return "", nil, false
		}
		text = after
		after = bytes.TrimLeft(after, " \t\r\n")
		if len(after) == 0 || after[0] != ':' {
			continue
		}
		after = bytes.TrimLeft(after[1:], " \t\r\n")
		if len(after) == 0 || after[0] != '"' {
			continue
		}
		for end := 1; end < len(after); end++ {
			switch after[end] {
			case '\\':
				end++
				continue
			case '"':
				if s, err := jsonrpc.Unquote(after[:end+1]); err == nil {
					return s, after[end+1:], true
				}
			default:
				continue
			}
			break
		}
	}
}

// Bounds of what a session remembers of results.
const (
	maxNamed       = 1024 // URIs of one result
	maxRemembered  = 4096
	maxRememberedB = 1 << 20
	maxWord        = 8 << 10 // bytes of one
)

// memory is which servers named a word, for the words that were named last.
type memory struct {
	servers map[string][]string
	order   []string // the oldest first
	bytes   int
}

// of are the servers that named a word.
func (m *memory) of(word string) []string { return slices.Clone(m.servers[word]) }

func (m *memory) add(word, server string) {
	if word == "" || len(word) > maxWord {
		return
	}
	if m.servers == nil {
		m.servers = map[string][]string{}
	}
	known, ok := m.servers[word]
	if ok {
		const enough = 8 // to see that it is not one
		if !slices.Contains(known, server) && len(known) < enough {
			m.servers[word] = append(known, server)
		}
		return
	}
	m.servers[word] = []string{server}
	m.order = append(m.order, word)
	m.bytes += len(word)
	for len(m.order) > maxRemembered || m.bytes > maxRememberedB {
		m.bytes -= len(m.order[0])
		delete(m.servers, m.order[0])
		m.order = m.order[1:]
	}
}
