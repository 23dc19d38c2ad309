package store

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// The kinds of records.
const (
	kindListing = 'L'
	kindModel   = 'M'
	kindVector  = 'V'
)

const (
	recordFormat = 1
	headerSize   = 12
	checksumAt   = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal fills in the header of a record whose payload stands behind it.
func seal(key, record []byte, kind byte, count uint32) {
	record[0], record[1], record[2], record[3] = recordFormat, kind, 0, 0
	binary.LittleEndian.PutUint32(record[4:], count)
	binary.LittleEndian.PutUint32(record[checksumAt:], checksum(key, record))
}

// unseal returns a record's count and payload; ok is false for one that is
// damaged or of another kind.
func unseal(key, record []byte, kind byte) (count uint32, payload []byte, ok bool) {
	if len(record) < headerSize || record[0] != recordFormat || record[1] != kind || record[2] != 0 || record[3] != 0 ||
		binary.LittleEndian.Uint32(record[checksumAt:]) != checksum(key, record) {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint32(record[4:]), record[headerSize:], true
}

// checksum covers the key too, so that a record under a wrong key is found out.
func checksum(key, record []byte) uint32 {
	sum := crc32.Update(0, castagnoli, key)
	sum = crc32.Update(sum, castagnoli, record[:checksumAt])
	return crc32.Update(sum, castagnoli, record[headerSize:])
}

func encodePayload(key []byte, kind byte, count uint32, payload []byte) []byte {
	record := make([]byte, headerSize+len(payload))
	copy(record[headerSize:], payload)
	seal(key, record, kind, count)
	return record
}

func encodeVector(key []byte, v []float32) []byte {
	record := make([]byte, headerSize+4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(record[headerSize+4*i:], math.Float32bits(x))
	}
	seal(key, record, kindVector, uint32(len(v)))
	return record
}

// decodeVector fills into, whose length is the dimension that is expected.
func decodeVector(key, record []byte, into []float32) bool {
	count, payload, ok := unseal(key, record, kindVector)
	if !ok || int64(count) != int64(len(into)) || len(payload) != 4*len(into) {
		return false
	}
	for i := range into {
		into[i] = math.Float32frombits(binary.LittleEndian.Uint32(payload[4*i:]))
	}
	return true
}
