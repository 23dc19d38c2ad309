package index

import (
	"encoding/json"
	"sync"
	"sync/atomic"
)

// A Problem is one place where arguments do not fit a tool's input schema.
type Problem struct {
	// Path says where, as in "a.b[0]"; "" is the arguments object itself.
	Path string
	// Message says what was expected and what was found. It never repeats a
	// value of the arguments.
	Message string
}

// String returns path and message in one line.
func (p Problem) String() string {
	if p.Path == "" {
		return "arguments: " + p.Message
	}
	return p.Path + ": " + p.Message
}

// MaxProblems is how many problems one validation reports at most: where it reports as
// many there may be more.
const MaxProblems = 20

// A Validator judges arguments against one input schema. What it needs is
// compiled when it is first needed, once. All methods are safe for concurrent
// use.
//
// Plain schemas and arguments, which are most, are accepted by one scan over
// the raw bytes. Everything else goes to a JSON Schema library: draft 2020-12
// unless $schema says otherwise, formats not asserted, nothing ever loaded
// from network or disk.
type Validator struct {
	schema json.RawMessage

	once  sync.Once
	quick atomic.Pointer[quickLook] // nil until somebody judged

	judgeOnce sync.Once
	judge     *judge
}

// NewValidator returns the validator of a schema. nil means that there is no
// schema: every argument is valid. schema is not copied and must not change.
func NewValidator(schema json.RawMessage) *Validator {
	return &Validator{schema: schema}
}

// quickLook is what a scan over raw bytes can say of arguments.
type quickLook struct{ plain *plain } // nil: nothing

// Accepts says that args are certainly valid, in time that grows with nothing
// but their length and without allocating. A false means only that Validate
// has to say. args is one valid JSON text; empty args stand for {}.
func (v *Validator) Accepts(args json.RawMessage) bool {
	if v.schema == nil {
		return true
	}
	q := v.quick.Load()
	return q != nil && q.plain != nil && q.plain.accepts(orEmpty(args))
}

// Validate returns what is wrong with args, at most [MaxProblems] in a stable
// order, or nil. args is one valid JSON text; empty args stand for {}. It
// compiles the schema where that was not needed before, and may take some
// tenths of a second, so it belongs on a worker; more than that no schema and
// no arguments can make it take.
//
// A schema that cannot be used (see [Validator.Note]) blocks nothing: the
// arguments then pass unjudged.
func (v *Validator) Validate(args json.RawMessage) []Problem {
	if v.schema == nil {
		return nil
	}
	v.once.Do(func() {
		q := &quickLook{}
		if len(v.schema) <= maxSchemaBytes {
			q.plain = compilePlain(v.schema)
		}
		v.quick.Store(q)
	})
	if v.Accepts(args) {
		return nil
	}
	return v.compiled().problems(orEmpty(args))
}

func orEmpty(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return args
}

// Note says in one line why arguments pass unjudged, or which part of the
// schema is not asserted; "" where all of it is. It compiles the schema if
// that was not needed before, so it belongs on no hot path.
func (v *Validator) Note() string {
	if v.schema == nil {
		return ""
	}
	return v.compiled().note
}

func (v *Validator) compiled() *judge {
	v.judgeOnce.Do(func() { v.judge = newJudge(v.schema) })
	return v.judge
}
