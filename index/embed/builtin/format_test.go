package builtin

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
)

func TestModelFileIsSmall(t *testing.T) {
	if n := len(modelData); n > 15_000_000 {
		t.Errorf("the data file has %d bytes", n)
	}
}

// signed gives a damaged file a right checksum, so that what is behind that
// check is met.
func signed(data string) string {
	raw := []byte(data)
	binary.LittleEndian.PutUint32(raw[8:], crc32.Checksum(raw[12:], crc32.MakeTable(crc32.Castagnoli)))
	return string(raw)
}

func patched(at int, with string) string {
	return signed(modelData[:at] + with + modelData[at+len(with):])
}

func TestDamagedModelFilesAreRefused(t *testing.T) {
	firstEntry := headerSize
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", "truncated"},
		{"short", modelData[:15], "truncated"},
		{"another file", "GIF8" + modelData[4:], "does not begin with"},
		{"another version", modelData[:4] + "\x09" + modelData[5:], "version 9"},
		{"one bit", modelData[:5_000_000] + string(modelData[5_000_000]^1) + modelData[5_000_001:], "checksum"},
		{"cut off", modelData[:len(modelData)/2], "checksum"},
		{"cut off and signed", signed(modelData[:len(modelData)/2]), "truncated"},
		{"table longer than the file", patched(12, "\xff\xff\xff\xff"), "truncated"},
		{"section beyond the file", patched(firstEntry+nameSize, "\xff\xff\xff\xff"), "truncated"},
		{"section missing", patched(firstEntry, "x"), "no section"},
		{"section of another size", patched(firstEntry+nameSize+4, "\x00\x00\x00\x00"), "instead of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readModel(c.data, portableKernel())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
