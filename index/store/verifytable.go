package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/dgraph-io/badger/v4/fb"
)

// maxTable is the largest table that is read; badger's are a few MiB here.
const maxTable = 256 << 20

// verifyTable checks the index and every block of one table against their
// checksums. A table is blocks, the index, and a footer that is read from the
// end: the length of the index's checksum, that checksum, the length of the
// index. A block ends likewise.
func verifyTable(path string) error {
	name := filepath.Base(path)
	data, err := readFile(path, maxTable)
	if errors.Is(err, fs.ErrNotExist) {
		return damaged("its table %s is missing", name)
	}
	if err != nil {
		return err
	}
	rest, sum, ok := cutChecksum(data)
	if !ok {
		return damaged("the footer of its table %s", name)
	}
	rest, length, ok := cutUint32(rest)
	if !ok || length > len(rest) || length < 8 {
		return damaged("the footer of its table %s", name)
	}
	index := rest[len(rest)-length:]
	if crc32.Checksum(index, castagnoli) != sum {
		return damaged("the index of its table %s", name)
	}
	// What has its checksum is what badger wrote; the guard is for a collision.
	return guarded(func() error {
		idx := fb.GetRootAsTableIndex(index, 0)
		if idx.OffsetsLength() == 0 {
			return damaged("its table %s is empty", name)
		}
		var block fb.BlockOffset
		for i := range idx.OffsetsLength() {
			idx.Offsets(&block, i)
			start, end := int64(block.Offset()), int64(block.Offset())+int64(block.Len())
			if end > int64(len(rest)-length) || !soundBlock(data[start:end]) {
				return damaged("block %d of its table %s", i, name)
			}
		}
		return nil
	})
}

func soundBlock(block []byte) bool {
	body, sum, ok := cutChecksum(block)
	if !ok || crc32.Checksum(body, castagnoli) != sum {
		return false
	}
	rest, entries, ok := cutUint32(body)
	return ok && entries > 0 && entries <= len(rest)/4
}

// cutChecksum takes a checksum, which is a protobuf message {algorithm, sum},
// and its length off the end.
func cutChecksum(data []byte) (rest []byte, sum uint32, ok bool) {
	rest, length, ok := cutUint32(data)
	if !ok || length > len(rest) || length > 32 {
		return nil, 0, false
	}
	message := rest[len(rest)-length:]
	rest = rest[:len(rest)-length]
	for len(message) > 0 {
		value, n := binary.Uvarint(message[1:])
		if n <= 0 {
			return nil, 0, false
		}
		switch {
		case message[0] == 1<<3 && value == 0: // CRC-32C, the only kind that is written here
		case message[0] == 2<<3 && value <= 1<<32-1:
			sum = uint32(value)
		default:
			return nil, 0, false
		}
		message = message[1+n:]
	}
	return rest, sum, true
}

func cutUint32(data []byte) (rest []byte, value int, ok bool) {
	if len(data) < 4 {
		return nil, 0, false
	}
	v := binary.BigEndian.Uint32(data[len(data)-4:])
	return data[:len(data)-4], int(v), v < 1<<31
}
