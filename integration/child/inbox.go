package child

import (
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// inbox hands lines to the ear as frames.
type inbox struct {
	p        *Process
	lines    splitter
	wide     bool
	repaired bool   // that text was no UTF-8 was said
	frames   int    // since the last flush
	head     []byte // of a message that is too large and whose id is still to come
	over     bool   // the stream has ended: what is left of it had no end
}

// took hands on the lines that are whole with n more bytes; none are the end of the
// stream.
func (in *inbox) took(n int) error {
	if n == 0 {
		return io.EOF
	}
	in.lines.took(n)
	in.flush()
	return nil
}

// finish hands on a last line that had no end. One that is whole counts. Else its
// sender did not get to write the rest, so that it answers nothing, whatever it begins
// with: what waits for that answer is lost with the stream.
func (in *inbox) finish() {
	in.over = true
	in.lines.finish()
	in.flush()
}

func (in *inbox) flush() {
	if in.frames > 0 {
		in.frames = 0
		in.p.ear.Flush()
	}
}

// line takes one line. An array of messages is a batch, which the 2025-03-26
// revision has.
func (in *inbox) line(line []byte, more bool) {
	if line[0] == '[' {
		messages := 0
		err := jsonrpc.Elements(line, func(element []byte) error {
			messages++
			in.frame(element, more)
			return nil
		})
		if err != nil || messages == 0 {
			in.noise(prefix(line), len(line) > prefixSize)
		}
		return
	}
	in.frame(line, more)
}

func (in *inbox) frame(line []byte, more bool) {
	f, err := in.parse(line)
	if f == nil && !utf8.Valid(line) {
		whole := jsonrpc.Repair(line)
		if len(whole) > in.p.launcher.o.MaxLine {
			in.outgrown(line, whole)
			return
		}
		var again error
		if f, again = in.parse(whole); f != nil {
			in.noteRepair()
		} else if isJSON(again) {
			line, err = whole, again
		}
	}
	if f == nil {
		in.unusable(line, err)
		return
	}
	f.Instance, f.Size, f.More = in.p.instance, len(line), more
	in.frames++
	in.p.ear.Frame(f)
}

// outgrown tells of a line that is too large once it is repaired.
func (in *inbox) outgrown(line, whole []byte) {
	if in.over {
		if f, err := in.parse(whole); f == nil {
			in.unusable(line, err)
			return
		}
	}
	in.tooLarge(prefix(line))
	in.ended(suffix(line))
}

// parse returns nil for what is no message.
func (in *inbox) parse(line []byte) (*messages.Frame, error) {
	f := new(messages.Frame)
	if err := in.p.launcher.o.Parse(line, f); err != nil {
		return nil, err
	}
	// A JSON object without any of these is a log line that happens to be
	// JSON.
	if f.Method == "" && f.Result == nil && f.Error == nil {
		return nil, errNoMessage
	}
	if err := jsonrpc.OneKind(f.Method, f.Result, f.Error); err != nil {
		return nil, err
	}
	return f, nil
}

var errNoMessage = &jsonrpc.MessageError{What: "it has neither a method nor a result nor an error"}

func (in *inbox) noteRepair() {
	if !in.repaired {
		in.repaired = true
		in.p.log.Note([]byte("text on stdout was not UTF-8; each such byte became U+FFFD (this is said once)"))
	}
}

// unusable tells the answer that is broken apart from other lines.
func (in *inbox) unusable(line []byte, why error) {
	shown := in.note(prefix(line), len(line) > prefixSize)
	if !in.over && !isLog(line, why) {
		if id := jsonrpc.AnsweredID(line, why); id != nil {
			in.p.ear.Broken(id, shown, why)
			return
		}
	}
	in.p.ear.Noise(shown)
}

// isJSON says whether a line failed to parse although it is JSON.
func isJSON(why error) bool {
	var bad *jsonrpc.MessageError
	return errors.As(why, &bad)
}

// isLog tells a log line in JSON, which may have an id and an "error" or a "result" as
// well, from an answer of a server that leaves out what a message must have: the latter
// says that it is one, or has an object there and no method, such as one of HTTP.
func isLog(line []byte, why error) bool {
	if !isJSON(why) || jsonrpc.Get(line, "jsonrpc") != nil {
		return false
	}
	if jsonrpc.Get(line, "method") != nil {
		return true
	}
	for _, name := range []string{"result", "error"} {
		if value := jsonrpc.Get(line, name); len(value) > 0 && value[0] == '{' {
			return false
		}
	}
	return true
}

func (in *inbox) noise(line []byte, cut bool) { in.p.ear.Noise(in.note(line, cut)) }

// note logs the beginning of a line and returns it as it is shown.
func (in *inbox) note(line []byte, cut bool) []byte {
	line = in.p.log.Line(messages.NotJSONRPC, line, cut)
	if cut {
		line = append(line, " … (cut)"...)
	}
	return line
}

// tooLarge tells at once where the id stands in front, as it does with most
// servers; skipped does where it stands at the end.
func (in *inbox) tooLarge(prefix []byte) {
	in.p.log.Note([]byte("a message of more than " + strconv.Itoa(in.p.launcher.o.MaxLine) + " bytes on stdout was skipped"))
	if id := jsonrpc.AnswerID(prefix, nil); id != nil {
		in.p.ear.TooLarge(id)
		return
	}
	in.head = prefix
}

func (in *inbox) skipped(suffix []byte) {
	if in.over {
		suffix = nil // not its end, but what came last of it
	}
	in.ended(suffix)
}

// ended is skipped for a message that is whole.
func (in *inbox) ended(suffix []byte) {
	if in.head != nil {
		id := jsonrpc.AnswerID(in.head, suffix)
		in.head = nil
		in.p.ear.TooLarge(id)
	}
}

func (in *inbox) grown() {
	if !in.wide {
		in.wide = true
		in.p.widen(in.p.stdout)
	}
}
