//go:build unix

package control

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/metamcp/metamcp/integration/attach"
)

// Who is neither the same user nor root is not let in; the next one is.
func TestStrangersAreRefused(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "mm") //nolint:usetesting // The folder of a test is too long for a socket.
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	plain, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	var asked atomic.Int32
	l := checkPeers(plain, func(c net.Conn) (int, error) {
		uid, err := attach.PeerUID(c)
		if err != nil || uid != os.Getuid() {
			t.Errorf("peer %d, %v; want %d", uid, err, os.Getuid())
		}
		switch asked.Add(1) {
		case 1:
			return os.Geteuid() + 1, nil
		case 2:
			return 0, errors.New("it has gone")
		}
		return uid, nil
	})
	for i := range 3 {
		c, err := attach.DialSocket(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:gocritic // Three, held until the end on purpose.
		if i < 2 {
			continue
		}
		in, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
	}
	if asked.Load() != 3 {
		t.Errorf("%d peers were asked for, want 3", asked.Load())
	}
}
