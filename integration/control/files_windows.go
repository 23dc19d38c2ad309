package control

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
)

// attachedFiles are pipes between a client's connection and its session, since
// a named pipe is no file here.
type attachedFiles struct {
	in, out     *os.File
	conn        net.Conn
	toIn, ofOut *os.File
	copies      sync.WaitGroup
}

// filesOf connects a connection with files.
func filesOf(conn net.Conn) (*attachedFiles, error) {
	f := &attachedFiles{conn: conn}
	var err error
	if f.in, f.toIn, err = os.Pipe(); err != nil {
		return nil, err
	}
	if f.ofOut, f.out, err = os.Pipe(); err != nil {
		return nil, errors.Join(err, f.in.Close(), f.toIn.Close())
	}
	go func() { // ends with the connection, which close closes
		_, _ = io.Copy(f.toIn, conn)
		_ = f.toIn.Close()
	}()
	f.copies.Go(func() { // ends with the session's output
		_, _ = io.Copy(conn, f.ofOut)
	})
	return f, nil
}

func (f *attachedFiles) close() {
	_ = f.out.Close()
	f.copies.Wait()
	_ = f.conn.Close()
	_ = f.in.Close()
}
