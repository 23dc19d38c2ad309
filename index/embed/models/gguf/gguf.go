// Package gguf reads what a GGUF file, the format of llama.cpp, says of the
// model that it holds. It reads no weights.
package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/metamcp/metamcp/integration/regular"
)

// Bounds that no real model comes near, so that a broken or hostile file costs
// little.
const (
	maxPairs    = 100_000
	maxString   = 8 << 20
	maxElements = 4 << 20
	maxHeader   = 256 << 20
	maxDepth    = 4
)

// Info is what a file says of its model. What it does not say is "" or 0.
type Info struct {
	// Architecture is the kind of network, such as "bert".
	Architecture string
	Name         string
	// Tokenizer is the family of the tokenizer: "bert" is WordPiece.
	Tokenizer string
	// ContextLength is how many tokens the model can see at once.
	ContextLength int
	// EmbeddingLength is the dimension of its vectors.
	EmbeddingLength int
	// Tokens is the vocabulary.
	Tokens []string
}

// ErrFormat is the cause of errors about files that are not GGUF, or broken.
var ErrFormat = errors.New("not a valid GGUF file")

// ReadFile reads the file's header. Its errors are those of the file system,
// or wrap [ErrFormat].
func ReadFile(path string) (info Info, err error) {
	f, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return Info{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err = Read(f)
	if err != nil {
		return Info{}, fmt.Errorf("%s: %w", path, err)
	}
	return info, nil
}

// Read reads the header of a file.
func Read(r io.Reader) (Info, error) {
	d := &decoder{r: bufio.NewReaderSize(io.LimitReader(r, maxHeader), 64<<10)}
	info, err := d.header()
	if err != nil {
		return Info{}, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return info, nil
}

// The types of values.
const (
	typeUint8 uint32 = iota
	typeInt8
	typeUint16
	typeInt16
	typeUint32
	typeInt32
	typeFloat32
	typeBool
	typeString
	typeArray
	typeUint64
	typeInt64
	typeFloat64
)

type decoder struct{ r *bufio.Reader }

func (d *decoder) header() (Info, error) {
	var magic [4]byte
	if _, err := io.ReadFull(d.r, magic[:]); err != nil || string(magic[:]) != "GGUF" {
		return Info{}, errors.New(`it does not begin with "GGUF"`)
	}
	version, err := d.uint32()
	if err != nil {
		return Info{}, err
	}
	if version != 2 && version != 3 {
		return Info{}, fmt.Errorf("version %d; 2 and 3 are known", version)
	}
	if _, err := d.uint64(); err != nil { // how many tensors
		return Info{}, err
	}
	pairs, err := d.uint64()
	if err != nil {
		return Info{}, err
	}
	if pairs > maxPairs {
		return Info{}, fmt.Errorf("it claims %d entries", pairs)
	}
	texts, numbers := map[string]string{}, map[string]uint64{}
	var info Info
	for range pairs {
		key, err := d.string()
		if err != nil {
			return Info{}, err
		}
		value, err := d.value(key == "tokenizer.ggml.tokens")
		if err != nil {
			return Info{}, fmt.Errorf("%q: %w", key, err)
		}
		switch v := value.(type) {
		case string:
			texts[key] = v
		case uint64:
			numbers[key] = v
		case []string:
			info.Tokens = v
		}
	}
	info.Architecture, info.Name, info.Tokenizer = texts["general.architecture"], texts["general.name"], texts["tokenizer.ggml.model"]
	info.ContextLength = small(numbers[info.Architecture+".context_length"])
	info.EmbeddingLength = small(numbers[info.Architecture+".embedding_length"])
	return info, nil
}

// small makes what no count can be unknown.
func small(n uint64) int {
	if n > math.MaxInt32 {
		return 0
	}
	return int(n)
}

// value returns a string, a uint64, or, if wanted, a []string; everything else
// is read over.
func (d *decoder) value(wanted bool) (any, error) {
	kind, err := d.uint32()
	if err != nil {
		return nil, err
	}
	switch kind {
	case typeString:
		return d.string()
	case typeUint32:
		n, err := d.uint32()
		return uint64(n), err
	case typeUint64:
		return d.uint64()
	case typeArray:
		return d.array(wanted, 1)
	default:
		return nil, d.skip(kind, 1)
	}
}

func (d *decoder) array(wanted bool, depth int) (any, error) {
	kind, err := d.uint32()
	if err != nil {
		return nil, err
	}
	n, err := d.uint64()
	if err != nil {
		return nil, err
	}
	if n > maxElements || depth > maxDepth {
		return nil, fmt.Errorf("an array of %d elements, %d deep", n, depth)
	}
	if kind != typeString || !wanted {
		for range n {
			if kind == typeArray {
				_, err = d.array(false, depth+1)
			} else {
				err = d.skip(kind, 1)
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	var all []string
	for range n {
		s, err := d.string()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// sizes are the bytes of the types of fixed size.
var sizes = map[uint32]int64{
	typeUint8: 1, typeInt8: 1, typeBool: 1, typeUint16: 2, typeInt16: 2,
	typeUint32: 4, typeInt32: 4, typeFloat32: 4, typeUint64: 8, typeInt64: 8, typeFloat64: 8,
}

func (d *decoder) skip(kind uint32, count int64) error {
	if kind == typeString {
		_, err := d.string()
		return err
	}
	size, known := sizes[kind]
	if !known {
		return fmt.Errorf("a value of the unknown type %d", kind)
	}
	_, err := d.r.Discard(int(size * count))
	return ended(err)
}

func (d *decoder) string() (string, error) {
	n, err := d.uint64()
	if err != nil {
		return "", err
	}
	if n > maxString {
		return "", fmt.Errorf("a text of %d bytes", n)
	}
	text, err := io.ReadAll(io.LimitReader(d.r, int64(n)))
	if err == nil && uint64(len(text)) < n {
		err = io.ErrUnexpectedEOF
	}
	return string(text), ended(err)
}

func (d *decoder) uint32() (uint32, error) {
	var b [4]byte
	_, err := io.ReadFull(d.r, b[:])
	return binary.LittleEndian.Uint32(b[:]), ended(err)
}

func (d *decoder) uint64() (uint64, error) {
	var b [8]byte
	_, err := io.ReadFull(d.r, b[:])
	return binary.LittleEndian.Uint64(b[:]), ended(err)
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}
