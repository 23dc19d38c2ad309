package builtin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"unsafe"
)

// The data file, little-endian throughout, as make-model/make_model.py writes it:
//
//	"MMEB"              4 bytes
//	version             uint32, formatVersion
//	CRC-32C             uint32, of everything after this number
//	number of sections  uint32
//	for each section    its name (24 bytes, padded with zeros), offset of its
//	                    bytes in the file (uint32), their number (uint32)
//	the sections
//
// A section is an array of int8 or float32, or the pieces of the vocabulary.
const (
	formatMagic   = "MMEB"
	formatVersion = 1
	headerSize    = 16
	nameSize      = 24
	entrySize     = nameSize + 8
)

var errTruncated = errors.New("it is truncated")

// A modelFile gives access to the sections of a data file.
type modelFile struct {
	data     string
	sections map[string]string
}

// openModel checks the file and finds its sections. What it returns refers
// to data, which is never copied as a whole.
func openModel(data string) (*modelFile, error) {
	if len(data) < headerSize {
		return nil, errTruncated
	}
	raw := stringBytes(data)
	if data[:4] != formatMagic {
		return nil, errors.New("it does not begin with " + formatMagic)
	}
	if v := binary.LittleEndian.Uint32(raw[4:]); v != formatVersion {
		return nil, fmt.Errorf("it has format version %d, and this program reads version %d", v, formatVersion)
	}
	if sum := crc32.Checksum(raw[12:], crc32.MakeTable(crc32.Castagnoli)); sum != binary.LittleEndian.Uint32(raw[8:]) {
		return nil, errors.New("its checksum is wrong")
	}
	n := uint64(binary.LittleEndian.Uint32(raw[12:]))
	if headerSize+n*entrySize > uint64(len(data)) {
		return nil, errTruncated
	}
	f := &modelFile{data: data, sections: make(map[string]string, n)}
	for i := range n {
		entry := raw[headerSize+i*entrySize:]
		name := entry[:nameSize]
		for len(name) > 0 && name[len(name)-1] == 0 {
			name = name[:len(name)-1]
		}
		from := uint64(binary.LittleEndian.Uint32(entry[nameSize:]))
		size := uint64(binary.LittleEndian.Uint32(entry[nameSize+4:]))
		if from+size > uint64(len(data)) {
			return nil, errTruncated
		}
		f.sections[string(name)] = data[from : from+size]
	}
	return f, nil
}

// raw returns the bytes of a section.
func (f *modelFile) raw(name string) (string, error) {
	s, ok := f.sections[name]
	if !ok {
		return "", fmt.Errorf("it has no section %q", name)
	}
	return s, nil
}

// int8s returns a section of n numbers, which stay where the file is and must
// not be written to.
func (f *modelFile) int8s(name string, n int) ([]int8, error) {
	s, err := f.raw(name)
	if err != nil {
		return nil, err
	}
	if len(s) != n {
		return nil, fmt.Errorf("section %q has %d bytes instead of %d", name, len(s), n)
	}
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.StringData(s))), n), nil //nolint:gosec // s has n bytes, and nobody writes to them
}

// float32s returns a copy of a section of n numbers.
func (f *modelFile) float32s(name string, n int) ([]float32, error) {
	s, err := f.raw(name)
	if err != nil {
		return nil, err
	}
	if len(s) != 4*n {
		return nil, fmt.Errorf("section %q has %d bytes instead of %d", name, len(s), 4*n)
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(stringBytes(s[4*i:])))
	}
	return out, nil
}

// stringBytes lets functions for bytes read a string without a copy.
func stringBytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // the bytes are only read
}
