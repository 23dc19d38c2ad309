package httpembed

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/prep"
)

// decode reads the vectors of an answer and puts them into the order of the
// texts.
func (c *Client) decode(answer []byte, texts int) ([][]float32, error) {
	var parsed struct {
		Data []struct {
			Index     *int            `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &parsed); err != nil {
		return nil, c.failure(embed.BadAnswer, "%s answered with something else than JSON vectors: %s", c.cfg.Service, explain(answer))
	}
	if len(parsed.Data) == 0 && texts > 0 {
		return nil, c.failure(embed.BadAnswer, "%s answered without vectors: %s", c.cfg.Service, explain(answer))
	}
	if len(parsed.Data) != texts {
		return nil, c.failure(embed.BadAnswer, "%s answered with %d vectors for %d texts", c.cfg.Service, len(parsed.Data), texts)
	}
	vectors := make([][]float32, texts)
	seen := make([]bool, texts)
	for i, d := range parsed.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= texts || seen[at] {
			return nil, c.failure(embed.BadAnswer, "%s answered with the index %d twice or for %d texts", c.cfg.Service, at, texts)
		}
		seen[at] = true
		v, err := decodeVector(d.Embedding)
		if err == nil {
			v, err = prep.Unit(v)
		}
		if err != nil {
			return nil, c.failure(embed.BadAnswer, "%s answered with a vector that cannot be used: %v", c.cfg.Service, err)
		}
		vectors[at] = v
	}
	if _, err := prep.Dimension(vectors, 0); err != nil {
		return nil, c.failure(embed.BadAnswer, "%s answered with %v", c.cfg.Service, err)
	}
	return vectors, nil
}

// decodeVector takes an array of numbers, or base64 of little-endian float32.
// It does not let encoding/json fill a []float32: that takes null for 0.
func decodeVector(raw json.RawMessage) ([]float32, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) > 1 && raw[0] == '[':
		return decodeArray(raw[1 : len(raw)-1])
	case len(raw) > 1 && raw[0] == '"':
		return decodeBase64(raw)
	default:
		return nil, errors.New("it is no array of numbers")
	}
}

func decodeArray(inner []byte) ([]float32, error) {
	if len(bytes.TrimSpace(inner)) == 0 {
		return nil, errors.New("it is empty")
	}
	vector := make([]float32, 0, bytes.Count(inner, []byte(","))+1)
	for number := range bytes.SplitSeq(inner, []byte(",")) {
		v, err := strconv.ParseFloat(string(bytes.TrimSpace(number)), 32)
		if err != nil {
			return nil, fmt.Errorf("number %d of it is %.20q", len(vector), number)
		}
		vector = append(vector, float32(v))
	}
	return vector, nil
}

func decodeBase64(raw json.RawMessage) ([]float32, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, err
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(packed) == 0 || len(packed)%4 != 0 {
		return nil, errors.New("it is neither an array nor base64 of 32-bit numbers")
	}
	vector := make([]float32, len(packed)/4)
	for i := range vector {
		vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*i:]))
	}
	return vector, nil
}
