package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// Version is the version of the lines' format.
const Version = 1

// recordStart is what every line of every version begins with.
const recordStart = `{"v":`

// Host is the process that wrote a line.
type Host struct {
	PID  int    `json:"pid"`
	Name string `json:"name,omitempty"`
}

// Record is one line of an audit log, as docs/AUDIT.md describes it.
type Record struct {
	V           int             `json:"v"`
	Seq         uint64          `json:"seq"`  // 1, 2, 3 … over all files of a chain
	Time        time.Time       `json:"time"` // UTC
	Host        Host            `json:"host"`
	Kind        Kind            `json:"kind"`
	Session     uint64          `json:"session,omitempty"`
	Client      Client          `json:"client,omitzero"`
	Request     uint64          `json:"request,omitempty"`
	Server      string          `json:"server,omitempty"`
	Tool        string          `json:"tool,omitempty"`
	Method      string          `json:"method,omitempty"`
	ArgsHash    string          `json:"argsHash,omitempty"` // HMAC-SHA-256, hexadecimal
	Args        json.RawMessage `json:"args,omitempty"`     // scrubbed; only where asked for
	ArgsBytes   int             `json:"argsBytes,omitempty"`
	Outcome     string          `json:"outcome,omitempty"`
	Class       string          `json:"class,omitempty"`
	DurationMs  float64         `json:"durationMs,omitempty"`
	ResultBytes int             `json:"resultBytes,omitempty"`
	Retries     int             `json:"retries,omitempty"`
	Redacted    map[string]int  `json:"redacted,omitempty"`
	Decision    *Decision       `json:"decision,omitempty"`
	Lost        uint64          `json:"lost,omitempty"`   // of a gap: how many entries
	Found       string          `json:"found,omitempty"`  // of a start or rotate: what was wrong with the chain
	Oldest      uint64          `json:"oldest,omitempty"` // of a rotate: the first entry that is kept
	Prev        string          `json:"prev"`             // hash of the entry before; "": this is the first
	Hash        string          `json:"hash,omitempty"`   // SHA-256 of the line without this member
	// Raw is the line as it stands in the file, without its newline; only of
	// what [Records] yields.
	Raw []byte `json:"-"`
}

// Failed reports whether the line tells of something that did not work: a
// call, a script or a provision with another outcome than ok, entries that were lost, a
// chain that was found broken.
func (r *Record) Failed() bool {
	switch r.Kind {
	case KindCall, KindExecute, KindProvision:
		return r.Outcome != OutcomeOK && r.Outcome != ""
	default:
		return r.Lost > 0 || r.Found != ""
	}
}

// The hash stands last, so that whoever checks a line need not know JSON: what
// was hashed is the line up to its hash, with the brace that closes it.
const (
	hashBefore = `,"hash":"`
	hashAfter  = `"}`
	hashTail   = len(hashBefore) + 2*sha256.Size + len(hashAfter)
)

// encoder turns entries into lines. It belongs to the log's goroutine.
type encoder struct {
	host  []byte // as it stands in every line
	plain bool
	scrub func(json.RawMessage) json.RawMessage
	mac   hash.Hash
	sum   [sha256.Size]byte // room
	args  []byte            // room for arguments without white space

	names func(string) string
	// clean are the names of the batch as they are written: few, in many lines. No
	// longer, since what a secret is may change.
	clean map[string]string
}

func newEncoder(o *Options, key []byte) *encoder {
	host, _ := json.Marshal(Host{PID: o.PID, Name: o.Name}) // plain fields always marshal
	return &encoder{
		host: host, plain: o.PlainArgs, scrub: o.Scrub, mac: hmac.New(sha256.New, key),
		names: o.ScrubName, clean: map[string]string{},
	}
}

// begin is called before each batch of lines.
func (e *encoder) begin() { clear(e.clean) }

// name is a name without the secrets in it, cut only then: what is cut can no longer
// be found.
func (e *encoder) name(s string) string {
	if s == "" {
		return ""
	}
	out, ok := e.clean[s]
	if !ok {
		if out = s; e.names != nil {
			out = e.names(s)
		}
		cut(&out, maxName)
		e.clean[s] = out
	}
	return out
}

// line appends the line of an entry, with its newline, to dst and returns the
// line's hash. It is what encoding/json makes of a [Record], in a fraction of the
// time: there is one for each call. On an error dst is as it was.
func (e *encoder) line(dst []byte, x *Entry, seq uint64, prev string) (line []byte, sum string, err error) {
	const lastYear = 9999 // that a time in RFC 3339 can have
	when := x.Time.UTC()
	if y := when.Year(); y < 0 || y > lastYear {
		return dst, "", fmt.Errorf("the year %d cannot be written", y)
	}
	x.eachName(func(s *string) { *s = e.name(*s) })
	b := append(dst, recordStart...)
	b = strconv.AppendInt(b, Version, 10)
	b = jsonrpc.AppendUint(b, `,"seq":`, seq)
	b = append(b, `,"time":"`...)
	b = when.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","host":`...)
	b = append(b, e.host...)
	b = jsonrpc.AppendText(b, `,"kind":`, string(x.Kind))
	b = jsonrpc.AppendUint(b, `,"session":`, x.Session)
	if x.Client != (Client{}) {
		b = append(b, `,"client":`...)
		at := len(b)
		b = jsonrpc.AppendText(b, `,"name":`, x.Client.Name)
		b = jsonrpc.AppendText(b, `,"version":`, x.Client.Version)
		b[at] = '{' // in place of the first comma
		b = append(b, '}')
	}
	b = jsonrpc.AppendUint(b, `,"request":`, x.Request)
	b = jsonrpc.AppendText(b, `,"server":`, x.Server)
	b = jsonrpc.AppendText(b, `,"tool":`, x.Tool)
	b = jsonrpc.AppendText(b, `,"method":`, x.Method)
	if len(x.Args) > 0 {
		b = e.arguments(b, x)
		b = jsonrpc.AppendInt(b, `,"argsBytes":`, int64(len(x.Args)))
	}
	b = jsonrpc.AppendText(b, `,"outcome":`, x.Outcome)
	b = jsonrpc.AppendText(b, `,"class":`, x.Class)
	if micros := x.Duration.Microseconds(); micros != 0 {
		b = append(b, `,"durationMs":`...)
		b = strconv.AppendFloat(b, float64(micros)/1000, 'f', -1, 64)
	}
	b = jsonrpc.AppendInt(b, `,"resultBytes":`, int64(x.ResultBytes))
	b = jsonrpc.AppendInt(b, `,"retries":`, int64(x.Retries))
	if len(x.Redacted) > 0 {
		if b, err = appendValue(b, `,"redacted":`, x.Redacted); err != nil {
			return dst, "", err
		}
	}
	if x.Decision != nil {
		if b, err = appendValue(b, `,"decision":`, x.Decision); err != nil {
			return dst, "", err
		}
	}
	b = jsonrpc.AppendUint(b, `,"lost":`, x.lost)
	b = jsonrpc.AppendText(b, `,"found":`, x.found)
	b = jsonrpc.AppendUint(b, `,"oldest":`, x.oldest)
	b = append(b, `,"prev":`...)
	b = jsonrpc.AppendQuote(b, prev)

	end := len(b)
	b = append(b, '}')
	e.sum = sha256.Sum256(b[len(dst):])
	b = append(b[:end], hashBefore...)
	at := len(b)
	b = hex.AppendEncode(b, e.sum[:])
	sum = string(b[at:])
	return append(b, hashAfter+"\n"...), sum, nil
}

// appendValue appends what few lines have.
func appendValue(b []byte, before string, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(append(b, before...), text...), err
}

// arguments appends their hash, or a copy of them. What is hashed is free of the
// client's white space, so that the same call has the same hash.
func (e *encoder) arguments(b []byte, x *Entry) []byte {
	if e.plain && x.Kind != KindExecute {
		shown := x.Args
		if e.scrub != nil {
			shown = e.scrub(x.Args)
		}
		if len(shown) <= maxPlainArgs {
			b = append(b, `,"args":`...)
			if !json.Valid(shown) {
				return jsonrpc.AppendQuote(b, string(shown))
			}
			return append(b, jsonrpc.Compact(nil, shown)...)
		}
	}
	text := jsonrpc.Compact(e.args, x.Args)
	e.mac.Reset()
	_, _ = e.mac.Write(text) // a hash takes everything
	b = append(b, `,"argsHash":"`...)
	b = hex.AppendEncode(b, e.mac.Sum(e.sum[:0]))
	const keep = 1 << 20
	if len(text) < len(x.Args) && cap(text) <= keep {
		e.args = text // a copy, whose room the next arguments take
	}
	return append(b, '"')
}

// errNotWhole says that a line is no entry: torn by a crash, or damaged.
var errNotWhole = errors.New("the line is no entry of an audit log")

// parse reads one line, without its newline. The error is errNotWhole where it
// is no entry at all; intact is false for an entry whose hash is not its own.
func parse(line []byte) (r Record, intact bool, err error) {
	if err := json.Unmarshal(line, &r); err != nil || r.Seq == 0 {
		return Record{}, false, errNotWhole
	}
	at := len(line) - hashTail
	if at < 1 || !strings.HasPrefix(string(line[at:]), hashBefore) || !bytes.HasSuffix(line, []byte(hashAfter)) {
		return r, false, nil
	}
	h := sha256.New()
	_, _ = h.Write(line[:at]) // a hash takes everything
	_, _ = h.Write([]byte("}"))
	want := hex.EncodeToString(h.Sum(nil))
	return r, r.Hash == want && string(line[at+len(hashBefore):len(line)-len(hashAfter)]) == want, nil
}
