package typescript

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxSchema is how many bytes of a schema are read; a longer one is as good as
// none.
const maxSchema = 128 << 10

// maxNesting is how deep JSON may be nested. A schema spends about two levels
// on one level of its values, so this is far beyond maxDepth.
const maxNesting = 200

// object is a JSON object in the order of its text, which is the order that its
// author found natural. Of two members of one name the last counts.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) get(key string) any {
	if o == nil {
		return nil
	}
	return o.values[key]
}

func (o *object) text(key string) string {
	s, _ := o.get(key).(string)
	return s
}

func (o *object) object(key string) *object {
	v, _ := o.get(key).(*object)
	return v
}

func (o *object) list(key string) []any {
	v, _ := o.get(key).([]any)
	return v
}

// number is a member that is a number, as it is written; "" for anything else.
func (o *object) number(key string) string {
	n, _ := o.get(key).(json.Number)
	return n.String()
}

var errNested = errors.New("nested too deep")

// parse reads JSON into nil, bool, string, json.Number, []any and *object.
func parse(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the value")
	}
	return v, nil
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxNesting {
		return nil, errNested
	}
	if delim == '[' {
		list := []any{}
		for dec.More() {
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	o := &object{values: map[string]any{}}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // the decoder lets nothing else be a key
		v, err := parseValue(dec, depth+1)
		if err != nil {
			return nil, err
		}
		if _, twice := o.values[key]; !twice {
			o.keys = append(o.keys, key)
		}
		o.values[key] = v
	}
	_, err = dec.Token()
	return o, err
}
