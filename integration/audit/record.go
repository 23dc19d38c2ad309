package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// Version is the version of the lines' format.
const Version = 1

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
	host  Host
	plain bool
	scrub func(json.RawMessage) json.RawMessage
	names func(string) string
	mac   hash.Hash

	buf  bytes.Buffer
	args []byte // room for arguments without white space
	json *json.Encoder
}

func newEncoder(o *Options, key []byte) *encoder {
	e := &encoder{host: Host{PID: o.PID, Name: o.Name}, plain: o.PlainArgs, scrub: o.Scrub, names: o.ScrubName, mac: hmac.New(sha256.New, key)}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}

// line appends the line of an entry, with its newline, to dst and returns the
// line's hash.
func (e *encoder) line(dst []byte, x *Entry, seq uint64, prev string) (line []byte, sum string, err error) {
	x.clean(e.names)
	r := Record{
		V: Version, Seq: seq, Time: x.Time.UTC(), Host: e.host, Kind: x.Kind,
		Session: x.Session, Client: x.Client, Request: x.Request, Server: x.Server, Tool: x.Tool, Method: x.Method,
		ArgsBytes: len(x.Args), Outcome: x.Outcome, Class: x.Class,
		DurationMs:  float64(x.Duration.Microseconds()) / 1000,
		ResultBytes: x.ResultBytes, Retries: x.Retries, Redacted: x.Redacted, Decision: x.Decision,
		Lost: x.lost, Found: x.found, Oldest: x.oldest, Prev: prev,
	}
	if len(x.Args) > 0 {
		e.arguments(&r, x.Args)
	}
	e.buf.Reset()
	if err := e.json.Encode(&r); err != nil {
		return dst, "", err
	}
	text := bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))
	raw := sha256.Sum256(text)
	sum = hex.EncodeToString(raw[:])
	dst = append(dst, text[:len(text)-1]...)
	dst = append(dst, hashBefore...)
	dst = append(dst, sum...)
	return append(dst, hashAfter+"\n"...), sum, nil
}

// arguments hashes or copies them. What is hashed is free of the client's
// white space, so that the same call has the same hash.
func (e *encoder) arguments(r *Record, args json.RawMessage) {
	if e.plain && r.Kind != KindExecute {
		shown := args
		if e.scrub != nil {
			shown = e.scrub(args)
		}
		if len(shown) <= maxPlainArgs {
			if !json.Valid(shown) {
				shown, _ = json.Marshal(string(shown)) //nolint:errchkjson // a string can always be encoded
			}
			r.Args = shown
			return
		}
	}
	text := jsonrpc.Compact(e.args, args)
	e.mac.Reset()
	_, _ = e.mac.Write(text) // a hash takes everything
	r.ArgsHash = hex.EncodeToString(e.mac.Sum(nil))
	const keep = 1 << 20
	if len(text) < len(args) && cap(text) <= keep {
		e.args = text // a copy, whose room the next arguments take
	}
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
