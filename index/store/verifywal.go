package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
)

const (
	walHeader = 20 // the number of the key that it is encrypted with, and an IV
	maxKey    = 1 << 16
	// maxWAL bounds what badger may have logged for one memtable: it holds
	// largestMemtable and one transaction more.
	maxWAL = largestMemtable + largestMemtable/4
)

// verifyWAL checks the write-ahead log of one memtable, and removes one that is
// none: what it held is gone, which is no reason to give up the tables. Where an entry is not
// sound, the log is cut: badger stops there too, but not before it has trusted
// the entry's length. A log that holds nothing goes, since badger takes an empty
// one, which a kill leaves when it comes at the right moment, for an error.
//
// An entry is meta and user meta (a byte each), the lengths of key and value and
// the time of expiry (varints), key, value, and a CRC-32C of all that.
func verifyWAL(path string, log func(level, msg string)) error {
	data, err := readFile(path, 2*largestMemtable)
	if err == nil && len(data) >= walHeader && binary.BigEndian.Uint64(data) != 0 {
		err = damaged("the header of the log %s", filepath.Base(path))
	}
	if errors.Is(err, errDamaged) {
		log("warn", "the index store lost its latest writes: "+err.Error())
		return os.RemoveAll(path)
	}
	if err != nil {
		return err
	}
	if len(data) < walHeader {
		return os.Remove(path)
	}
	at := walHeader
	for {
		n, ok := walEntry(data[at:])
		if !ok {
			break
		}
		at += n
	}
	if at > maxWAL {
		return damaged("its log is longer than any that is written here")
	}
	if at == walHeader {
		return os.Remove(path)
	}
	if at == len(data) {
		return nil
	}
	return os.Truncate(path, int64(at))
}

// walEntry returns the length of the sound entry at the start of data.
func walEntry(data []byte) (length int, ok bool) {
	at := 2
	var fields [3]uint64
	for i := range fields {
		if at >= len(data) {
			return 0, false
		}
		value, n := binary.Uvarint(data[at:])
		if n <= 0 {
			return 0, false
		}
		fields[i], at = value, at+n
	}
	key, value := fields[0], fields[1]
	rest := uint64(len(data) - at)
	if key < 8 || key > maxKey || value > rest || key+value+crc32.Size > rest {
		return 0, false
	}
	at += int(key + value)
	return at + crc32.Size, crc32.Checksum(data[:at], castagnoli) == binary.BigEndian.Uint32(data[at:])
}
