package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/dgraph-io/badger/v4"
)

const (
	// MaxListing is the largest listing, in bytes.
	MaxListing = 64 << 20
	// MaxServerName is the longest name of a server, in bytes.
	MaxServerName = 1 << 12
	// partSize is how much of a listing goes into one record, which must stay
	// below largestRecord.
	partSize = 128 << 10
	// partHead is what stands before a part: length and CRC-32C of the whole
	// listing, so that parts of two listings never make one.
	partHead = 8
)

// A listing's record n is its part n. Part 0 starts with the length of the
// server's name (uint16) and the name.

// A storedListing is what stands under one server's keys.
type storedListing struct {
	server string
	raw    []byte
	keys   [][]byte
	sound  bool
}

// Listings calls yield with each server's listing, in the order of their keys. raw is the
// caller's to keep. An error of yield ends the walk and is returned as it is;
// yield must not call the store. A listing that is damaged is left out.
//
// All is read from one moment of the store. May be called from any goroutine.
func (s *Store) Listings(yield func(server string, raw []byte) error) error {
	var stopped error
	err := s.read("read listings", func(g *guard, txn *badger.Txn) error {
		return s.eachListing(txn, toolsPrefix, func(l *storedListing) (err error) {
			if l.sound {
				stopped = g.call(func() error { return yield(l.server, l.raw) })
			}
			return stopped
		})
	})
	if stopped != nil {
		return stopped
	}
	return err
}

// eachListing calls fn with what stands under prefix, sound or not.
func (s *Store) eachListing(txn *badger.Txn, prefix []byte, fn func(*storedListing) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	it.Rewind()
	for it.Valid() {
		giveWay()
		a := assembly{}
		a.base = bytes.Clone(it.Item().Key())
		a.base = a.base[:max(len(a.base)-2, 0)]
		for ; it.Valid() && a.owns(it.Item().Key()); it.Next() {
			key := it.Item().KeyCopy(nil)
			if err := it.Item().Value(func(record []byte) error { a.add(key, record); return nil }); err != nil {
				return err
			}
		}
		l := a.finish()
		if !l.sound {
			for _, key := range l.keys {
				s.fault(key)
			}
		}
		if err := fn(l); err != nil {
			return err
		}
	}
	return nil
}

// An assembly puts the parts of one listing together.
type assembly struct {
	base   []byte // the key without the number of the part
	l      storedListing
	parts  uint32
	length uint32
	sum    uint32
	bad    bool
}

func (a *assembly) owns(key []byte) bool {
	return len(key) == len(a.base)+2 && bytes.HasPrefix(key, a.base)
}

// add takes the next part; its key is kept.
func (a *assembly) add(key, record []byte) {
	n := len(a.l.keys)
	a.l.keys = append(a.l.keys, key)
	parts, payload, ok := unseal(key, record, kindListing)
	if a.bad = a.bad || !ok || len(payload) < partHead || int(binary.BigEndian.Uint16(key[len(a.base):])) != n; a.bad {
		return
	}
	length, sum := binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint32(payload[4:])
	payload = payload[partHead:]
	if n == 0 {
		if len(payload) < 2 || len(payload)-2 < int(binary.LittleEndian.Uint16(payload)) || length > MaxListing {
			a.bad = true
			return
		}
		end := 2 + int(binary.LittleEndian.Uint16(payload))
		a.l.server, payload = string(payload[2:end]), payload[end:]
		a.parts, a.length, a.sum = parts, length, sum
		a.l.raw = make([]byte, 0, length)
	}
	a.bad = parts != a.parts || length != a.length || sum != a.sum || len(a.l.raw)+len(payload) > int(length)
	if !a.bad {
		a.l.raw = append(a.l.raw, payload...)
	}
}

func (a *assembly) finish() *storedListing {
	a.l.sound = !a.bad && len(a.l.keys) > 0 && len(a.l.keys) == int(a.parts) && len(a.l.raw) == int(a.length) &&
		crc32.Checksum(a.l.raw, castagnoli) == a.sum && bytes.Equal(under(toolsPrefix, a.l.server), a.base)
	return &a.l
}

// PutListings stores the listings of servers, each in place of the one before.
// When it returns nil they are on disk; after an error, or a crash before that,
// the listing of a server may be the old one, the new one, or absent, but never a
// mixture. What is stored already is not written again.
func (s *Store) PutListings(listings map[string][]byte) error {
	const op = "write listings"
	fresh := map[string][]byte{}
	surplus := map[string][][]byte{} // the keys that stand there
	var size int64
	err := s.read(op, func(_ *guard, txn *badger.Txn) error {
		for server, raw := range listings {
			if len(raw) > MaxListing {
				return fmt.Errorf("the listing of %.100q has %d MiB, and %d are possible", server, len(raw)>>20, MaxListing>>20)
			}
			if len(server) > MaxServerName {
				return fmt.Errorf("the name of the server %.100q… has over %d bytes", server, MaxServerName)
			}
			same := false
			if err := s.eachListing(txn, under(toolsPrefix, server), func(l *storedListing) error {
				same = l.sound && bytes.Equal(l.raw, raw)
				surplus[server] = l.keys
				return nil
			}); err != nil {
				return err
			}
			if !same {
				fresh[server] = raw
				size += int64(len(raw) + 1<<10)
			}
		}
		return nil
	})
	if err != nil || len(fresh) == 0 {
		return err
	}
	return s.write(op, size, func(b batch) error {
		for server, raw := range fresh {
			n, err := putListing(b, server, raw)
			if err != nil {
				return err
			}
			for _, key := range surplus[server] {
				if int(binary.BigEndian.Uint16(key[len(key)-2:])) < n {
					continue
				}
				if err := b.Delete(key); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// putListing writes the parts of a listing and returns how many there are.
func putListing(b batch, server string, raw []byte) (parts int, err error) {
	prefix := under(toolsPrefix, server)
	parts = max(1, (len(raw)+partSize-1)/partSize)
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(raw)))
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(raw, castagnoli))
	for n := range parts {
		key := binary.BigEndian.AppendUint16(bytes.Clone(prefix), uint16(n))
		payload := bytes.Clone(head)
		if n == 0 {
			payload = binary.LittleEndian.AppendUint16(payload, uint16(len(server)))
			payload = append(payload, server...)
		}
		payload = append(payload, raw[n*partSize:min((n+1)*partSize, len(raw))]...)
		if err := b.Set(key, encodePayload(key, kindListing, uint32(parts), payload)); err != nil {
			return 0, err
		}
	}
	return parts, nil
}

// DeleteListings deletes the listings of servers that keep refuses, and those
// that are damaged, and returns how many. keep must not call the store.
func (s *Store) DeleteListings(keep func(server string, raw []byte) bool) (deleted int, err error) {
	const op = "delete listings"
	var keys [][]byte
	err = s.read(op, func(g *guard, txn *badger.Txn) error {
		return s.eachListing(txn, toolsPrefix, func(l *storedListing) error {
			return g.call(func() error {
				if !l.sound || !keep(l.server, l.raw) {
					deleted++
					keys = append(keys, l.keys...)
				}
				return nil
			})
		})
	})
	if err == nil && deleted > 0 {
		err = s.delete(op, keys)
	}
	if err != nil {
		return 0, err
	}
	return deleted, nil
}

// delete deletes keys.
func (s *Store) delete(op string, keys [][]byte) error {
	var size int64
	for _, key := range keys {
		size += int64(len(key) + 64)
	}
	return s.write(op, size, func(b batch) error {
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
}
