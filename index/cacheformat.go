package index

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/messages"
)

// cacheVersion is the version of the file's format. A file of another version
// is not read; the server's next listing replaces it.
const cacheVersion = 1

// A cache file is one JSON object that is written line by line:
//
//	{"version":1,"server":"github","fetched":"2026-01-02T03:04:05Z",
//	"specHash":…,"era":…,"protocolVersion":…,"serverInfo":{…},"instructions":…,"skipped":0,
//	"tools":[
//	<the first definition, byte for byte>,
//	<the second>
//	]}
//
// All that may change without a new listing being worth a write is in the
// first line, so that comparing the rest tells whether anything changed; and
// who owns a file can be read without the rest of it.

// maxHead bounds the first line when it is read alone, in bytes.
const maxHead = 64 << 10

type cacheHead struct {
	Version int       `json:"version"`
	Server  string    `json:"server"`
	Fetched time.Time `json:"fetched"`
}

type cacheIdentity struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type cacheBody struct {
	SpecHash        string        `json:"specHash"`
	Era             messages.Era  `json:"era"`
	ProtocolVersion string        `json:"protocolVersion"`
	ServerInfo      cacheIdentity `json:"serverInfo"`
	Instructions    string        `json:"instructions"`
	Skipped         int           `json:"skipped"`
	// Offers are not in files of older versions: nothing is known then.
	Offers messages.Offers `json:"offers"`
}

// encodeToolset writes the file of ts.
func encodeToolset(ts *messages.Toolset) ([]byte, error) {
	head, err := json.Marshal(cacheHead{cacheVersion, ts.Server, ts.Fetched.UTC()})
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(cacheBody{
		SpecHash:        ts.SpecHash,
		Era:             ts.Era,
		ProtocolVersion: ts.Version,
		ServerInfo:      cacheIdentity{ts.ServerName, ts.ServerVersion},
		Instructions:    ts.Instructions,
		Skipped:         ts.Skipped,
		Offers:          ts.Offers,
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(head[:len(head)-1])
	b.WriteString(",\n")
	b.Write(body[1 : len(body)-1])
	b.WriteString(",\n\"tools\":[")
	for i, t := range ts.Tools {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		if !json.Valid(t.Raw) {
			return nil, fmt.Errorf("the definition of tool %q is not valid JSON", t.Name)
		}
		b.Write(t.Raw)
	}
	b.WriteString("\n]}\n")
	return b.Bytes(), nil
}

// sameBody says that two files differ in their first lines at most, and that a's time
// still does for b. A later one does not: it is of a clock that went back since.
func sameBody(a, b []byte) bool {
	headA, bodyA, okA := bytes.Cut(a, []byte{'\n'})
	headB, bodyB, okB := bytes.Cut(b, []byte{'\n'})
	if !okA || !okB || !bytes.Equal(bodyA, bodyB) {
		return false
	}
	x, errA := parseHead(headA)
	y, errB := parseHead(headB)
	newer := y.Fetched.Sub(x.Fetched)
	return errA == nil && errB == nil && x.Version == y.Version && x.Server == y.Server && newer >= 0 && newer < relisted
}

func parseHead(line []byte) (cacheHead, error) {
	var h cacheHead
	object := append(bytes.TrimSuffix(bytes.Clone(line), []byte{','}), '}')
	if err := json.Unmarshal(object, &h); err != nil {
		return h, errors.New("the first line is not that of a schema cache file")
	}
	return h, nil
}

// namedIn reads from its first line whose file this is.
func namedIn(path string) (server string, ok bool) {
	f, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReaderSize(f, maxHead).ReadSlice('\n')
	if err != nil {
		return "", false
	}
	h, err := parseHead(bytes.TrimRight(line, "\r\n"))
	return h.Server, err == nil && h.Server != ""
}

// decodeToolset reads the file of server. The definitions keep their bytes and
// alias data.
func decodeToolset(server string, data []byte) (*messages.Toolset, error) {
	var head cacheHead
	var body cacheBody
	if err := decodeLines(data, &head, &body); err != nil {
		return nil, err
	}
	if head.Version != cacheVersion {
		return nil, fmt.Errorf("schema.json has format version %d, and %d is understood", head.Version, cacheVersion)
	}
	if head.Server != server {
		return nil, fmt.Errorf("schema.json belongs to the server %q", head.Server)
	}
	tools, skipped, err := ParseTools(server, data)
	if err != nil {
		return nil, err
	}
	return &messages.Toolset{
		Server:        server,
		Tools:         tools,
		Skipped:       body.Skipped + skipped,
		Fetched:       head.Fetched,
		Era:           body.Era,
		Version:       body.ProtocolVersion,
		SpecHash:      body.SpecHash,
		Instructions:  body.Instructions,
		ServerName:    body.ServerInfo.Name,
		ServerVersion: body.ServerInfo.Version,
		Offers:        body.Offers,
	}, nil
}

// decodeLines reads what stands before the tools: the first two lines as this program
// writes them, each for itself, since most of the file are the tools; else the whole.
func decodeLines(data []byte, head *cacheHead, body *cacheBody) error {
	first, rest, _ := bytes.Cut(data, []byte{'\n'})
	second, third, _ := bytes.Cut(rest, []byte{'\n'})
	if h, err := parseHead(first); err == nil && bytes.HasPrefix(third, []byte(`"tools":[`)) {
		object := slices.Concat([]byte{'{'}, bytes.TrimSuffix(second, []byte{','}), []byte{'}'})
		if json.Unmarshal(object, body) == nil {
			*head = h
			return nil
		}
		*body = cacheBody{}
	}
	if !json.Valid(data) {
		return errors.New("schema.json is not valid JSON")
	}
	for _, into := range []any{head, body} {
		if err := json.Unmarshal(data, into); err != nil {
			return fmt.Errorf("schema.json is not a schema cache file: %w", err)
		}
	}
	return nil
}
